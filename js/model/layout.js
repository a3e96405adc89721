// The model as systems see it: parameters, the modules that own them, and the groups that modules are in.
// Mirrors src/zerowidget/layout.py.

import { elements_of, layer_name, transformer_of } from "./specs.js";

/** @typedef {import("./specs.js").Setup} Setup */

/**
 * One tensor of the model.
 * @typedef {object} Parameter
 * @property {string} name
 * @property {number} elements
 * @property {number} rows length of dimension 0, which FSDP2 shards; 0 when not known: taken to divide evenly
 * @property {boolean} flat one dimension: a bias, or the scale of a norm
 */

/**
 * What owns parameters directly and runs as a whole; in the order of the forward pass.
 * @typedef {object} Module
 * @property {string} name
 * @property {string} group "layer 0" .., or "root": what is in no layer
 * @property {number[]} parameters indices; one that is shared stands in every module that uses it
 * @property {number} forward_flops per micro-step and GPU; the backward pass takes twice as many
 */

/** @typedef {{parameters: Parameter[], modules: Module[]}} Layout */

/** @type {[string, number][]} The matrices of a transformer layer, and their twelfths of its parameters. */
export const MATRICES = [
  ["qkv", 3],
  ["proj", 1],
  ["up", 4],
  ["down", 4],
];

/**
 * The shapes of `setup`; where it has none, equal layers of four matrices each and nothing else. Modules outside
 * the layers that come before them look up embeddings, which takes no FLOPs.
 * @param {Readonly<Setup>} setup
 * @returns {Layout}
 */
export function layout_of(setup) {
  const known = KNOWN.get(setup);
  if (known !== undefined) return known;
  const layout = setup.shapes === null ? plain_layout(setup) : shaped_layout(setup, setup.shapes);
  KNOWN.set(setup, layout);
  return layout;
}

/** @type {WeakMap<object, Layout>} A system asks for it many times in one step. */
const KNOWN = new WeakMap();

/**
 * The parameters of a real model, in the modules and layers that their names tell.
 * @param {Readonly<Setup>} setup
 * @param {[string, import("./specs.js").Shape][]} shapes
 * @returns {Layout}
 */
export function shaped_layout(setup, shapes) {
  /** @type {Parameter[]} */
  const parameters = [];
  /** @type {Map<string, number>} Of the parameter, by name; shared ones have one. */
  const index = new Map();
  /** @type {Map<string, number[]>} By module. */
  const members = new Map();
  /** @type {Map<string, number>} */
  const layers = new Map();
  for (const [name, shape] of shapes) {
    if (typeof shape === "string") {
      index.set(name, /** @type {number} */ (index.get(shape)));
    } else {
      index.set(name, parameters.length);
      const rows = shape.length > 0 ? shape[0] : 1;
      parameters.push({ name, elements: elements_of(shape), rows, flat: shape.length <= 1 });
    }
    const module = name.includes(".") ? name.slice(0, name.lastIndexOf(".")) : "";
    const mine = members.get(module) ?? [];
    mine.push(/** @type {number} */ (index.get(name)));
    members.set(module, mine);
    const layer = layer_name(name);
    if (layer !== "" && !layers.has(layer)) layers.set(layer, layers.size);
  }
  const { tokens } = transformer_of(setup);
  const attention = setup.hidden === null ? 0 : 4 * setup.seq_len * setup.hidden;
  const sums = Array.from(layers, () => 0);
  for (const [module, mine] of members) {
    const number = layers.get(layer_name(`${module}.`));
    if (number !== undefined) sums[number] = sums[number] + elements_in(parameters, mine);
  }
  /** @type {Module[]} */
  const modules = [];
  let looks_up = layers.size > 0; // until the first layer begins
  for (const [module, mine] of members) {
    const number = layers.get(layer_name(`${module}.`));
    const elements = elements_in(parameters, mine);
    if (number === undefined) {
      const forward_flops = looks_up ? 0 : 2 * elements * tokens;
      modules.push({ name: module, group: "root", parameters: mine, forward_flops });
      continue;
    }
    looks_up = false;
    const forward_flops = (2 * elements + (attention * elements) / sums[number]) * tokens;
    modules.push({ name: module, group: `layer ${number}`, parameters: mine, forward_flops });
  }
  return { parameters, modules };
}

/**
 * The elements of some of the parameters.
 * @param {Parameter[]} parameters
 * @param {number[]} members
 */
export function elements_in(parameters, members) {
  let elements = 0;
  for (const member of members) elements = elements + parameters[member].elements;
  return elements;
}

/**
 * N spread evenly over the layers, each of them four matrices.
 * @param {Readonly<Setup>} setup
 * @returns {Layout}
 */
export function plain_layout(setup) {
  const transformer = transformer_of(setup);
  /** @type {Parameter[]} */
  const parameters = [];
  /** @type {Module[]} */
  const modules = [];
  for (let layer = 0; layer < setup.layers; layer += 1) {
    for (const [matrix, twelfths] of MATRICES) {
      const name = `layers.${layer}.${matrix}`;
      const elements = (transformer.elements * twelfths) / 12;
      parameters.push({ name: `${name}.weight`, elements, rows: 0, flat: false });
      const forward_flops = (transformer.forward_flops * twelfths) / 12;
      modules.push({ name, group: `layer ${layer}`, parameters: [parameters.length - 1], forward_flops });
    }
  }
  return { parameters, modules };
}

/**
 * Per parameter, the first module of the forward pass that uses it: in the backward pass, the last.
 * @param {Layout} layout
 */
export function first_uses(layout) {
  const first = layout.parameters.map(() => -1);
  for (const [index, module] of layout.modules.entries()) {
    for (const parameter of module.parameters) {
      if (first[parameter] < 0) first[parameter] = index;
    }
  }
  return first;
}

/**
 * Per module, the gradients that its backward pass completes, in the order in which they are ready: a bias before
 * the weight it belongs to, a norm's weight before its bias.
 * @param {Layout} layout
 */
export function ready_order(layout) {
  const users = first_uses(layout);
  /** @type {number[][]} */
  const order = [];
  for (const [number, module] of layout.modules.entries()) {
    const mine = module.parameters.filter((parameter) => users[parameter] === number);
    const flat = mine.filter((parameter) => layout.parameters[parameter].flat);
    order.push(flat.concat(mine.filter((parameter) => !layout.parameters[parameter].flat)));
  }
  return order;
}

/**
 * The last part of a module's name.
 * @param {string} name
 */
export function part_of(name) {
  return name.slice(name.lastIndexOf(".") + 1);
}
