// The order in which DeepSpeed's stage 3 sees modules called: the trace that it records.
// Mirrors src/zerowidget/systems/deepspeed/trace.py, where the sources are.

import { layer_name } from "../../specs.js";

/** @typedef {import("../../layout.js").Layout} Layout */

/**
 * A module that is called: one that owns parameters, or one around such.
 * @typedef {object} Node
 * @property {string} name
 * @property {string} group
 * @property {number[]} parameters in the order of the model
 * @property {number[]} modules of the layout: what it computes by itself
 * @property {number[]} children
 * @property {boolean} keeps its inputs need no gradient, so nothing tells it that its backward pass is over
 */

/**
 * @param {string} name
 * @param {string} group
 * @returns {Node}
 */
function make_node(name, group) {
  return { name, group, parameters: [], modules: [], children: [], keeps: false };
}

/**
 * A module is entered, computes, or is left.
 * @typedef {object} Visit
 * @property {number} node
 * @property {string} kind enter, compute, leave
 * @property {string} phase forward, backward
 * @property {string} op forward, recompute, backward
 */

/**
 * Whether a part of a name is a place in a list.
 * @param {string} part
 */
export function is_number(part) {
  return /^[0-9]+$/.test(part);
}

/**
 * The modules that are called, the model itself first, each before what is in it. A list is not called, so "blocks"
 * is none where "blocks.0" is one. `leaves`: a layer is one unit, as after `set_z3_leaf_modules`.
 * @param {Layout} layout
 * @param {boolean} leaves
 */
export function nodes_of(layout, leaves) {
  /** @type {Node[]} */
  const nodes = [make_node("", "root")];
  const index = new Map([["", 0]]);
  for (const [number, module] of layout.modules.entries()) {
    const parts = module.name !== "" ? module.name.split(".") : [];
    let above = 0;
    for (let length = 1; length <= parts.length; length += 1) {
      if (length < parts.length && is_number(parts[length])) continue;
      const name = parts.slice(0, length).join(".");
      let found = index.get(name);
      if (found === undefined) {
        found = nodes.length;
        index.set(name, found);
        nodes.push(make_node(name, module.group));
        nodes[above].children.push(found);
      }
      above = found;
      if (leaves && layer_name(`${name}.`) === name) break;
    }
    const mine = nodes[above];
    mine.modules.push(number);
    for (const parameter of module.parameters) {
      if (!mine.parameters.includes(parameter)) mine.parameters.push(parameter);
    }
  }
  for (const node of nodes) node.parameters.sort((one, other) => one - other);
  before_layers(nodes, layout);
  return nodes;
}

/**
 * Mark the modules that look up what the first layer gets.
 * @param {Node[]} nodes
 * @param {Layout} layout
 */
export function before_layers(nodes, layout) {
  for (const [number, module] of layout.modules.entries()) {
    if (module.group !== "root") {
      for (const node of nodes) {
        if (node.modules.length > 0 && node.modules[0] < number) node.keeps = true;
      }
      return;
    }
  }
}

/**
 * One forward and backward pass: the same tree, its branches in order and then in reverse. The model is entered
 * before its parts in both.
 * @param {Node[]} nodes
 * @param {boolean} recompute
 */
export function visits_of(nodes, recompute) {
  /** @type {Visit[]} */
  const visits = [];
  walk_forward(nodes, 0, "forward", "forward", visits);
  walk_backward(nodes, 0, recompute, -1, visits);
  return visits;
}

/**
 * A module and what is in it, forward.
 * @param {Node[]} nodes
 * @param {number} number
 * @param {string} phase
 * @param {string} op
 * @param {Visit[]} visits
 */
export function walk_forward(nodes, number, phase, op, visits) {
  visits.push({ node: number, kind: "enter", phase, op });
  if (nodes[number].modules.length > 0) visits.push({ node: number, kind: "compute", phase, op });
  for (const child of nodes[number].children) walk_forward(nodes, child, phase, op, visits);
  visits.push({ node: number, kind: "leave", phase, op });
}

/**
 * A module and what is in it, backward; one with modules in it computes after them. `layer`: the checkpointed layer
 * around it that is not computed again yet, or -1; so is what returns.
 * @param {Node[]} nodes
 * @param {number} number
 * @param {boolean} recompute
 * @param {number} layer
 * @param {Visit[]} visits
 * @returns {number}
 */
export function walk_backward(nodes, number, recompute, layer, visits) {
  const node = nodes[number];
  const phase = "backward";
  const op = "backward";
  let pending = layer;
  if (recompute && node.name !== "" && layer_name(`${node.name}.`) === node.name) pending = number;
  visits.push({ node: number, kind: "enter", phase, op });
  if (node.modules.length > 0 && node.children.length === 0) {
    if (pending >= 0) {
      recompute_layer(nodes, pending, visits);
      pending = -1;
    }
    visits.push({ node: number, kind: "compute", phase, op });
  }
  for (const child of node.children.slice().reverse()) {
    pending = walk_backward(nodes, child, recompute, pending, visits);
  }
  if (node.modules.length > 0 && node.children.length > 0) {
    visits.push({ node: number, kind: "compute", phase, op });
  }
  visits.push({ node: number, kind: "leave", phase, op });
  return pending;
}

/**
 * A checkpointed layer runs forward again as soon as its last module is entered backward: its parts are entered anew,
 * not the layer, and the last one is not left, for recomputation stops inside it.
 * @param {Node[]} nodes
 * @param {number} layer
 * @param {Visit[]} visits
 */
export function recompute_layer(nodes, layer, visits) {
  if (nodes[layer].modules.length > 0) {
    visits.push({ node: layer, kind: "compute", phase: "backward", op: "recompute" });
  }
  for (const child of nodes[layer].children) walk_forward(nodes, child, "backward", "recompute", visits);
  while (visits[visits.length - 1].kind === "leave") visits.pop();
}
