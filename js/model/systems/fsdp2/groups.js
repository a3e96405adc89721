// The parameter groups of `fully_shard`: what is in them, over how many ranks, and what they cost.
// Mirrors src/zerowidget/systems/fsdp2/groups.py.

import { seconds } from "../../comms.js";
import { first_uses } from "../../layout.js";
import { cluster_of, DTYPE_BYTES } from "../../specs.js";
import { last_uses, step_seconds } from "./parts.js";

/** @typedef {import("../../layout.js").Layout} Layout */
/** @typedef {import("../../layout.js").Parameter} Parameter */
/** @typedef {import("../../specs.js").Cluster} Cluster */
/** @typedef {import("../../specs.js").Setup} Setup */
/** @typedef {import("./parts.js").Part} Part */

/**
 * What the calls of torch.distributed.fsdp take and a setup does not say, named as there.
 * @typedef {object} Options
 * @property {number} forward_prefetch layers in set_modules_to_forward_prefetch; 0: not called
 * @property {number} backward_prefetch layers in set_modules_to_backward_prefetch; 0: not called
 * @property {boolean} reshard_after_backward false: set_reshard_after_backward(False) but in the last micro-step
 * @property {boolean} separate_reduce_scatter_group
 */

/** @type {Options} */
export const DEFAULT = {
  forward_prefetch: 0,
  backward_prefetch: 0,
  reshard_after_backward: true,
  separate_reduce_scatter_group: false,
};

/**
 * The rings that collectives run on, and what they carry.
 * @typedef {object} Mesh
 * @property {Cluster} shard
 * @property {Cluster} regather of the shards that are kept after the forward pass
 * @property {Cluster} replicas of one shard; HSDP's second dimension
 * @property {string} param_dtype
 * @property {number} param_bytes
 * @property {string} reduce_dtype
 * @property {number} reduce_bytes
 */

/**
 * Shards lie on neighbouring ranks, so the replicas of one are a shard group apart. `reshard_after_forward`: a
 * number keeps shards over as many ranks; all of them is the same as true.
 * @param {Readonly<Setup>} setup
 * @returns {Mesh}
 */
export function mesh_of(setup) {
  const shards = Math.min(setup.n, setup.shard_size ?? setup.n);
  const kept = setup.reshard_after_forward;
  const regather = typeof kept === "number" ? Math.min(shards, kept) : shards;
  const reduce_dtype = setup.reduce_dtype ?? setup.param_dtype;
  return {
    shard: cluster_of(setup, shards),
    regather: cluster_of(setup, regather),
    replicas: cluster_of(setup, Math.floor(setup.n / shards), shards),
    param_dtype: setup.param_dtype,
    param_bytes: DTYPE_BYTES[setup.param_dtype],
    reduce_dtype,
    reduce_bytes: DTYPE_BYTES[reduce_dtype],
  };
}

/**
 * Parameters that are gathered and reduced together.
 * @typedef {object} Group
 * @property {string} name
 * @property {number} elements with the padding of every parameter to a multiple of the ranks
 * @property {boolean} reshards after the forward pass
 */

/**
 * A part of the model that computes as a whole, with the parameters of one group.
 * @typedef {object} Use
 * @property {number} group
 * @property {number} layer its number; -1 outside of the layers
 * @property {boolean} early before the layers: no gradient of its inputs is asked for
 * @property {number} gradients elements whose gradients its backward pass is the first to write; no padding
 * @property {number} flops forward
 */

/**
 * Seconds: of compute per use, of collectives per group, and of the optimizer.
 * @typedef {object} Costs
 * @property {number[]} forward
 * @property {number[]} backward
 * @property {number[]} gather
 * @property {number[]} regather
 * @property {number[]} reduce
 * @property {number[]} replicate
 * @property {number} optimizer
 */

/**
 * The elements of a parameter once its dimension 0 is padded to a multiple of the ranks.
 * @param {Parameter} parameter
 * @param {number} ranks
 */
export function padded(parameter, ranks) {
  if (parameter.rows === 0) return parameter.elements;
  return Math.ceil(parameter.rows / ranks) * ranks * (parameter.elements / parameter.rows);
}

/**
 * Whether a group is sharded again after its forward pass. Null keeps the root whole, for its backward pass comes
 * at once; true does not. Shards over one rank are whole.
 * @param {boolean | number | null} value reshard_after_forward
 * @param {boolean} root
 */
export function reshards(value, root) {
  if (value === null) return !root;
  return value === true || (value !== false && value > 1);
}

/**
 * The groups, and their uses in the order of the forward pass: a group for every layer, and the root for the rest.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 * @param {Layout} layout
 * @param {Part[]} parts
 * @returns {[Group[], Use[]]}
 */
export function groups_of(setup, stage, layout, parts) {
  const ranks = mesh_of(setup).shard.n;
  const first = first_uses(layout);
  const last = last_uses(layout);
  /** @type {Group[]} */
  const groups = [];
  /** @type {Use[]} */
  const uses = [];
  /** @type {Map<string, number>} Of the groups, by name. */
  const numbers = new Map();
  let layers = 0;
  for (const part of parts) {
    let elements = 0;
    let gradients = 0;
    for (const index of part.modules) {
      for (const parameter of layout.modules[index].parameters) {
        if (first[parameter] === index) elements = elements + padded(layout.parameters[parameter], ranks);
        if (last[parameter] === index) gradients = gradients + layout.parameters[parameter].elements;
      }
    }
    let number = numbers.get(part.group);
    if (number === undefined) {
      number = groups.length;
      numbers.set(part.group, number);
      const value = stage === 2 ? false : setup.reshard_after_forward;
      groups.push({ name: part.group, elements: 0, reshards: reshards(value, part.group === "root") });
    }
    groups[number].elements = groups[number].elements + elements;
    const layer = part.layer ? layers : -1;
    layers += part.layer ? 1 : 0;
    uses.push({ group: number, layer, early: layers === 0, gradients, flops: part.flops });
  }
  return [groups, uses];
}

/**
 * The costs on the cluster of `setup`.
 * @param {Readonly<Setup>} setup
 * @param {Mesh} mesh
 * @param {Group[]} groups
 * @param {Use[]} uses
 * @returns {Costs}
 */
export function costs_of(setup, mesh, groups, uses) {
  const { flops } = cluster_of(setup);
  /** @type {number[]} */
  const gather = [];
  /** @type {number[]} */
  const regather = [];
  /** @type {number[]} */
  const reduce = [];
  /** @type {number[]} */
  const replicate = [];
  let mine = 0; // elements of this rank's shards
  for (const group of groups) {
    const shard = group.elements / mesh.shard.n;
    gather.push(seconds("all_gather", mesh.param_bytes * group.elements, mesh.shard));
    regather.push(seconds("all_gather", mesh.param_bytes * group.elements, mesh.regather));
    reduce.push(seconds("reduce_scatter", mesh.reduce_bytes * group.elements, mesh.shard));
    replicate.push(seconds("all_reduce", mesh.reduce_bytes * shard, mesh.replicas));
    mine = mine + shard;
  }
  return {
    forward: uses.map((use) => use.flops / flops),
    backward: uses.map((use) => (2 * use.flops) / flops),
    gather,
    regather,
    reduce,
    replicate,
    optimizer: step_seconds(setup, mine),
  };
}
