// What the data-parallel wrappers of PyTorch have in common: what is stored, and what computes as a whole.
// Mirrors src/zerowidget/systems/fsdp2/parts.py.

import { bytes_of, cluster_of, recipe_of } from "../../specs.js";

/** @typedef {import("../../layout.js").Layout} Layout */
/** @typedef {import("../../specs.js").Setup} Setup */

/**
 * What PyTorch keeps per parameter between steps: the tensors it trains, and no copies of them.
 * @typedef {object} Stored
 * @property {string} dtype
 * @property {number} each bytes of a parameter, and of a gradient
 * @property {[string, number][]} states of the optimizer, in bytes
 */

/**
 * Where the recipe has a master copy, PyTorch trains that fp32 tensor itself, and casts it to compute.
 * @param {Readonly<Setup>} setup
 * @returns {Stored}
 */
export function stored_of(setup) {
  const recipe = recipe_of(setup);
  let dtype = recipe.param_dtype;
  let each = bytes_of(recipe, "parameters");
  /** @type {[string, number][]} */
  const states = [];
  for (const [state, kind, nbytes] of recipe.states) {
    if (state === "master") {
      dtype = "float32";
      each = 4;
    } else if (kind === "optimizer" && state !== "main_gradients") {
      states.push([state, nbytes]);
    }
  }
  return { dtype, each, states };
}

/**
 * Optimizer step over `elements` parameters, bound by memory. Parameters and states of the optimizer are read and
 * written, gradients read.
 * @param {Readonly<Setup>} setup
 * @param {number} elements
 */
export function step_seconds(setup, elements) {
  const stored = stored_of(setup);
  let nbytes = 3 * stored.each;
  for (const [, each] of stored.states) nbytes = nbytes + 2 * each;
  return (nbytes * elements) / cluster_of(setup).memory_bandwidth;
}

/**
 * What computes as a whole: a layer, or what is outside of the layers before or after them.
 * @typedef {object} Part
 * @property {string} group
 * @property {boolean} layer
 * @property {number[]} modules
 * @property {number} flops forward
 */

/**
 * The parts of the model, in the order of the forward pass; those of no module are left out.
 * @param {Layout} layout
 * @returns {Part[]}
 */
export function parts_of(layout) {
  /** @type {number[]} */
  const before = [];
  /** @type {number[]} */
  const after = [];
  /** @type {Map<string, number[]>} */
  const layers = new Map();
  for (const [index, { group }] of layout.modules.entries()) {
    if (group !== "root") {
      const mine = layers.get(group);
      if (mine === undefined) layers.set(group, [index]);
      else mine.push(index);
    } else if (layers.size === 0) {
      before.push(index);
    } else {
      after.push(index);
    }
  }
  /** @type {Part[]} */
  const parts = [];
  /** @type {[string, number[]][]} */
  const all = [["root", before], ...layers, ["root", after]];
  for (const [group, modules] of all) {
    let flops = 0;
    for (const index of modules) flops = flops + layout.modules[index].forward_flops;
    if (modules.length > 0) parts.push({ group, layer: group !== "root", modules, flops });
  }
  return parts;
}

/**
 * Per parameter, the last module of the forward pass that uses it: in the backward pass, the first.
 * @param {Layout} layout
 */
export function last_uses(layout) {
  const last = layout.parameters.map(() => -1);
  for (const [index, module] of layout.modules.entries()) {
    for (const parameter of module.parameters) last[parameter] = index;
  }
  return last;
}
