// What a step of DeepSpeed's stage 3 follows from, and what it asks for and reduces.
// Mirrors src/zerowidget/systems/deepspeed/plan.py, where the sources are.

import { first_uses, layout_of } from "../../layout.js";
import { cluster_of } from "../../specs.js";
import { coordinate } from "./coordinator.js";
import { overlaps, sizes_of, step_copies, step_seconds, travelling } from "./parts.js";
import { nodes_of, visits_of } from "./trace.js";

/** @typedef {import("../../layout.js").Layout} Layout */
/** @typedef {import("../../specs.js").Cluster} Cluster */
/** @typedef {import("../../specs.js").Setup} Setup */
/** @typedef {import("./coordinator.js").Limits} Limits */
/** @typedef {import("./coordinator.js").Moment} Moment */
/** @typedef {import("./coordinator.js").Request} Request */
/** @typedef {import("./trace.js").Node} Node */
/** @typedef {import("./trace.js").Visit} Visit */

/** Elements of a rank's share after which the optimizer starts a new group. */
export const SUB_GROUP = 1e9;

/**
 * All that the program of stage 3 follows from.
 * @typedef {object} Plan
 * @property {Layout} layout
 * @property {Node[]} nodes
 * @property {Visit[]} visits of one micro-step
 * @property {Limits} limits
 * @property {number[]} users per parameter, the first module that uses it
 * @property {number[]} forward seconds, per module
 * @property {number[]} backward
 * @property {number[]} padded elements per parameter as they travel
 * @property {number} param bytes of a parameter that is gathered, and of a gradient in the bucket
 * @property {string} dtype
 * @property {[string, number]} gather type of gathers, and bytes
 * @property {[string, number]} reduce type of reductions, and bytes
 * @property {number} bucket elements
 * @property {boolean} contiguous
 * @property {boolean} overlap
 * @property {Cluster} cluster of all ranks
 * @property {Cluster} near of neighbours that share the second shards
 * @property {number} accumulation
 * @property {string[]} scalars
 * @property {number} step seconds of the optimizer
 * @property {number} copies bytes that live only in it
 */

/**
 * The knobs, and whether hpZ is on: 1 is off.
 * @param {Readonly<Setup>} setup
 * @returns {Limits}
 */
export function limits_of(setup) {
  return {
    prefetch: setup.stage3_prefetch_bucket_size,
    live: setup.stage3_max_live_parameters,
    reuse: setup.stage3_max_reuse_distance,
    persistence: setup.stage3_param_persistence_threshold,
    apart: setup.zero_hpz_partition_size > 1 && setup.n > 1,
  };
}

/**
 * The plan of a setup; `leaves`: whether a layer is one unit (`set_z3_leaf_modules`).
 * @param {Readonly<Setup>} setup
 * @param {boolean} [leaves]
 * @returns {Plan}
 */
export function plan_of(setup, leaves = false) {
  const layout = layout_of(setup);
  const nodes = nodes_of(layout, leaves);
  const sizes = sizes_of(setup, 3);
  const cluster = cluster_of(setup);
  const limits = limits_of(setup);
  const away = setup.offload === "cpu";
  const groups = sub_groups(setup, layout);
  let owned = 0;
  let largest = 0;
  for (const group of groups) {
    owned = owned + group;
    largest = Math.max(largest, group);
  }
  const checks = setup.param_dtype === "float16" ? ["uint8"] : [];
  const norms = groups.map(() => (away ? "float32" : "float64"));
  const nodes_apart = setup.n >= 2 * setup.gpus_per_node; // all2all_process_group is used between nodes alone
  const quantized = setup.zero_quantized_gradients && nodes_apart;
  const neighbours = Math.min(setup.zero_hpz_partition_size, setup.n);
  return {
    layout,
    nodes,
    visits: visits_of(nodes, setup.recompute),
    limits,
    users: first_uses(layout),
    forward: layout.modules.map((module) => module.forward_flops / cluster.flops),
    backward: layout.modules.map((module) => (2 * module.forward_flops) / cluster.flops),
    padded: travelling(setup, layout),
    param: sizes.param,
    dtype: sizes.dtype,
    gather: setup.zero_quantized_weights ? ["int8", 1] : [sizes.dtype, sizes.param],
    reduce: quantized ? ["int4", 0.5] : [sizes.dtype, sizes.param],
    bucket: setup.reduce_bucket_size,
    contiguous: setup.contiguous_gradients,
    overlap: overlaps(setup, 3),
    cluster,
    near: limits.apart ? cluster_of(setup, neighbours) : cluster,
    accumulation: setup.accumulation,
    scalars: checks.concat(norms),
    step: step_seconds(sizes, owned, cluster),
    copies: away ? 0 : step_copies(sizes, largest, layout.parameters.length > 1),
  };
}

/**
 * Elements of a rank's share per group that the optimizer steps at once.
 * @param {Readonly<Setup>} setup
 * @param {Layout} layout
 */
export function sub_groups(setup, layout) {
  /** @type {number[]} */
  const groups = [];
  let sofar = 0;
  let count = 0;
  for (const elements of travelling(setup, layout)) {
    sofar = sofar + elements / setup.n;
    count += 1;
    if (sofar >= SUB_GROUP) {
      groups.push(sofar);
      sofar = 0;
      count = 0;
    }
  }
  if (count > 0) groups.push(sofar);
  return groups;
}

/**
 * What happens in each micro-step: the second shards of the first one serve all that follow.
 * @param {Plan} plan
 */
export function moments_of(plan) {
  const apart = plan.layout.parameters.map(() => false);
  /** @type {Moment[][]} */
  const moments = [];
  for (let micro_step = 0; micro_step < plan.accumulation; micro_step += 1) {
    if (micro_step > (plan.limits.apart ? 1 : 0)) {
      moments.push(moments[micro_step - 1]);
    } else {
      moments.push(coordinate(plan.layout, plan.nodes, plan.visits, plan.limits, apart));
    }
  }
  return moments;
}

/**
 * Every request for parameters in a step of the steady state, in order.
 * @param {Plan} plan
 */
export function requests(plan) {
  /** @type {Request[]} */
  const asked = [];
  for (const micro_step of moments_of(plan)) {
    for (const moment of micro_step) asked.push(...moment.requests);
  }
  return asked;
}

/**
 * The gradients that a node's backward pass completes, in the order of the model.
 * @param {Plan} plan
 * @param {Node} node
 */
export function completes(plan, node) {
  return node.parameters.filter((parameter) => node.modules.includes(plan.users[parameter]));
}

/**
 * The gradients of a backward pass by reduction: a bucket is full when the next one would overflow it.
 * @param {Plan} plan
 */
export function buckets_of(plan) {
  /** @type {number[][]} */
  const buckets = [];
  let sofar = 0;
  for (const visit of plan.visits) {
    if (visit.kind !== "compute" || visit.op !== "backward") continue;
    for (const parameter of completes(plan, plan.nodes[visit.node])) {
      const { elements } = plan.layout.parameters[parameter];
      if (buckets.length === 0 || sofar + elements > plan.bucket) {
        buckets.push([]);
        sofar = 0;
      }
      buckets[buckets.length - 1].push(parameter);
      sofar = sofar + elements;
    }
  }
  return buckets;
}
