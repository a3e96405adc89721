// ZeRO as its paper tells it (Rajbhandari et al. 2020, arXiv:1910.02054): even shards, equal layers.
// Mirrors src/zerowidget/systems/paper.py, where the sections are.

import { seconds } from "../comms.js";
import { backward_seconds, forward_seconds, optimizer_seconds } from "../compute.js";
import { collective_op, make_held, make_op } from "../program.js";
import { bytes_of, cluster_of, recipe_of, transformer_of } from "../specs.js";

/** @typedef {import("../program.js").Buffer} Buffer */
/** @typedef {import("../program.js").Collective} Collective */
/** @typedef {import("../program.js").Held} Held */
/** @typedef {import("../program.js").Op} Op */
/** @typedef {import("../specs.js").Setup} Setup */

/** @type {Buffer[]} */
const NONE = [];

/** @type {Record<string, number>} */
export const SHARDED_FROM = { optimizer: 1, gradients: 2, parameters: 3 };

/** @type {[string, string, string]} */
export const ALL_REDUCE = ["backward", "all_reduce", "gradients"];
/** @type {[string, string, string]} */
export const REDUCE_SCATTER = ["backward", "reduce_scatter", "gradients"];
/** @type {[string, string, string][][]} Per stage: phase, op, what moves; each once per layer. */
export const COLLECTIVES = [
  [ALL_REDUCE],
  [REDUCE_SCATTER, ["step", "all_gather", "parameters"]],
  [REDUCE_SCATTER, ["step", "all_gather", "parameters"]],
  [["forward", "all_gather", "parameters"], ["backward", "all_gather", "parameters"], REDUCE_SCATTER],
];

/**
 * At rest, per GPU: 16N, 4N + 12N/n, 2N + 14N/n, 16N/n bytes for the paper's own recipe (figure 1).
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 * @returns {Held[]}
 */
export function hold(setup, stage) {
  return recipe_of(setup).states.map(([state, kind, each]) => {
    const sharded = stage >= SHARDED_FROM[kind];
    const over = sharded ? setup.n : 1;
    return make_held(state, "gpu", (each * setup.N) / over, each, over, sharded);
  });
}

/**
 * How often a phase's collectives run in one step. Whole gradients can wait for the last micro-step (stages 0,
 * 1); gradients kept as shards are reduced every time (2, 3), parameters gathered every time (3).
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 * @param {string} phase
 */
export function repeats(setup, stage, phase) {
  return stage >= 2 && phase !== "step" ? setup.accumulation : 1;
}

/**
 * What one step communicates; nothing on a single GPU.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 * @returns {Collective[]}
 */
export function collectives(setup, stage) {
  if (setup.n === 1) return [];
  const recipe = recipe_of(setup);
  const cluster = cluster_of(setup);
  const { elements } = transformer_of(setup);
  return COLLECTIVES[stage].map(([phase, op, kind]) => {
    const dtype = kind === "parameters" ? recipe.param_dtype : recipe.grad_dtype;
    const each = bytes_of(recipe, kind);
    const times = repeats(setup, stage, phase);
    const count = setup.layers * times;
    const moved = setup.N * times; // N comes out as N, not as a sum over layers
    return {
      phase,
      op,
      dtype,
      count,
      elements: moved,
      nbytes: each * moved,
      seconds: count * seconds(op, each * elements, cluster),
      ranks: setup.n,
      leaves: cluster.leaves,
    };
  });
}

/**
 * One step in issue order, layer by layer.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 * @returns {Op[]}
 */
export function program(setup, stage) {
  return stage === 3 ? gathering(setup) : replicated(setup, stage);
}

/**
 * What one layer takes: seconds of compute, and bytes and seconds of its collectives.
 * @typedef {object} Layer
 * @property {number} elements
 * @property {number} forward
 * @property {number} backward
 * @property {string} param_dtype
 * @property {number} param_bytes
 * @property {string} grad_dtype
 * @property {number} grad_bytes
 * @property {import("../specs.js").Cluster} cluster
 */

/**
 * The one kind of layer there is.
 * @param {Readonly<Setup>} setup
 * @returns {Layer}
 */
export function layer_of(setup) {
  const recipe = recipe_of(setup);
  const transformer = transformer_of(setup);
  const cluster = cluster_of(setup);
  const param_bytes = bytes_of(recipe, "parameters") * transformer.elements;
  const grad_bytes = bytes_of(recipe, "gradients") * transformer.elements;
  return {
    elements: transformer.elements,
    forward: forward_seconds(transformer, cluster),
    backward: backward_seconds(transformer, cluster),
    param_dtype: recipe.param_dtype,
    param_bytes,
    grad_dtype: recipe.grad_dtype,
    grad_bytes,
    cluster,
  };
}

/**
 * The all-gather of a layer's parameters.
 * @param {Layer} layer
 * @param {string} group
 * @param {string} phase
 * @param {number[]} waits
 * @param {Buffer[]} [takes]
 */
export function gather_op(layer, group, phase, waits, takes = NONE) {
  const { elements, param_dtype, param_bytes, cluster } = layer;
  return collective_op(
    "all_gather",
    group,
    phase,
    waits,
    elements,
    param_dtype,
    param_bytes,
    cluster,
    "",
    takes,
  );
}

/**
 * The reduction of a layer's gradients, once its backward pass is over.
 * @param {Layer} layer
 * @param {string} op
 * @param {string} group
 * @param {number} backward
 * @param {Buffer[]} gives
 */
export function reduce_op(layer, op, group, backward, gives) {
  const { elements, grad_dtype, grad_bytes, cluster } = layer;
  const waits = [backward];
  return collective_op(
    op,
    group,
    "backward",
    waits,
    elements,
    grad_dtype,
    grad_bytes,
    cluster,
    "",
    NONE,
    gives,
  );
}

/**
 * Stages 0-2: whole parameters. Gradients are reduced under the backward pass, and where the optimizer is
 * sharded the updated parameters are gathered after it.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 * @returns {Op[]}
 */
export function replicated(setup, stage) {
  const layer = layer_of(setup);
  const { forward, backward } = layer;
  const reduce = COLLECTIVES[stage][0][1];
  /** @type {Buffer[]} Whole until it is reduced. */
  const bucket = stage === 2 && setup.n > 1 ? [["buckets", layer.grad_bytes]] : NONE;
  const groups = groups_of(setup.layers);
  const reversed = groups.slice().reverse();
  /** @type {Record<string, number[]>} A layer's gradients are written anew once they are reduced. */
  const reduced = {};
  /** @type {Op[]} */
  const ops = [];
  for (let micro_step = 1; micro_step <= setup.accumulation; micro_step += 1) {
    const reduces = setup.n > 1 && (stage === 2 || micro_step === setup.accumulation);
    for (const group of groups) ops.push(make_op("forward", group, "forward", "compute", forward));
    for (const group of reversed) {
      if (setup.recompute) ops.push(make_op("recompute", group, "backward", "compute", forward));
      const waits = reduced[group] ?? [];
      ops.push(make_op("backward", group, "backward", "compute", backward, waits, bucket));
      if (reduces) {
        reduced[group] = [ops.length];
        ops.push(reduce_op(layer, reduce, group, ops.length - 1, bucket));
      }
    }
  }
  const optimizer = ops.length;
  ops.push(step_op(setup, stage >= 1 ? setup.N / setup.n : setup.N, [optimizer - 1]));
  if (stage >= 1 && setup.n > 1) {
    for (const group of groups) ops.push(gather_op(layer, group, "step", [optimizer]));
  }
  return ops;
}

/**
 * Stage 3: each layer is gathered before its forward pass and again before its backward pass, and its gradients
 * are reduce-scattered after it. At most `prefetch` layers are gathered ahead of the one that computes; with
 * none ahead nothing overlaps, the textbook schedule.
 * @param {Readonly<Setup>} setup
 * @returns {Op[]}
 */
export function gathering(setup) {
  const layer = layer_of(setup);
  const { forward, backward } = layer;
  const alone = setup.n === 1;
  /** @type {Buffer[]} */
  const gathered = alone ? NONE : [["gathered", layer.param_bytes]];
  /** @type {Buffer[]} */
  const bucket = alone ? NONE : [["buckets", layer.grad_bytes]];
  const groups = groups_of(setup.layers);
  const reversed = groups.slice().reverse();
  const uses = [];
  for (let micro_step = 1; micro_step <= setup.accumulation; micro_step += 1) {
    for (const group of groups) uses.push({ phase: "forward", group });
    for (const group of reversed) uses.push({ phase: "backward", group });
  }
  /** @type {Op[]} */
  const ops = [];
  /** @type {number[]} Index of the all-gather of each use. */
  const gathers = [];
  /** @type {number[]} Index of the last compute of each use. */
  const computes = [];
  /** @type {Record<string, number[]>} */
  const reduced = {};
  for (const [use, { phase, group }] of uses.entries()) {
    while (!alone && gathers.length < Math.min(use + 1 + setup.prefetch, uses.length)) {
      const ahead = uses[gathers.length];
      const before = gathers.length - setup.prefetch - 1; // the use that must be over, and its layer freed
      const waits = before >= 0 ? [computes[before]] : [];
      gathers.push(ops.length);
      ops.push(gather_op(layer, ahead.group, ahead.phase, waits, gathered));
    }
    let waits = alone ? [] : [gathers[use]];
    if (phase === "forward") {
      ops.push(make_op("forward", group, phase, "compute", forward, waits, NONE, gathered));
      computes.push(ops.length - 1);
      continue;
    }
    if (setup.recompute) ops.push(make_op("recompute", group, phase, "compute", forward, waits));
    if (reduced[group]) waits = [...waits, ...reduced[group]];
    ops.push(make_op("backward", group, phase, "compute", backward, waits, bucket, gathered));
    computes.push(ops.length - 1);
    if (!alone) {
      reduced[group] = [ops.length];
      ops.push(reduce_op(layer, "reduce_scatter", group, ops.length - 1, bucket));
    }
  }
  ops.push(step_op(setup, setup.N / setup.n, [ops.length - 1]));
  return ops;
}

/**
 * The optimizer step over the `elements` that this rank updates.
 * @param {Readonly<Setup>} setup
 * @param {number} elements
 * @param {number[]} waits
 */
export function step_op(setup, elements, waits) {
  const length = optimizer_seconds(elements, recipe_of(setup), cluster_of(setup));
  return make_op("optimizer", "", "step", "compute", length, waits);
}

/** @type {string[]} Made once: a drag writes thousands of ops. */
const GROUPS = [];

/**
 * The names of the layers: "layer 0" ..
 * @param {number} layers
 */
function groups_of(layers) {
  while (GROUPS.length < layers) GROUPS.push(`layer ${GROUPS.length}`);
  return GROUPS.slice(0, layers);
}
