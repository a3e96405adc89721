// DeepSpeed's stages 0-2, step by step: whole parameters, and gradients reduced in buckets.
// Mirrors src/zerowidget/systems/deepspeed/replicated.py, where the sources are.

import { layout_of, ready_order } from "../../layout.js";
import { buffers_of, outside, overflows, pieces_past, put, reduce_bucket, reducer_of } from "./buckets.js";
import {
  accumulates_apart,
  communicate,
  during,
  finished,
  give,
  keeps_whole_gradients,
  make_draft,
  overlapped,
  padded,
  step_copies,
  step_seconds,
  update,
} from "./parts.js";
import { pass_backward, pass_forward, runs_of } from "./passes.js";

/** @typedef {import("../../layout.js").Layout} Layout */
/** @typedef {import("../../program.js").Buffer} Buffer */
/** @typedef {import("../../specs.js").Cluster} Cluster */
/** @typedef {import("../../specs.js").Setup} Setup */
/** @typedef {import("./buckets.js").Piece} Piece */
/** @typedef {import("./buckets.js").Reducer} Reducer */
/** @typedef {import("./parts.js").Draft} Draft */
/** @typedef {import("./parts.js").Sizes} Sizes */

/** Elements after which stage 0 reduces what it has so far. */
export const PLAIN_BUCKET = 5e8;

/**
 * Stage 1 without `overlap_comm`: whole gradients go through the bucket when all are there, in the order of the
 * model. A gradient is freed when it is copied into the bucket.
 * @param {Draft} draft
 * @param {Reducer} reducer
 * @param {number[][]} ready
 */
export function reduce_after(draft, reducer, ready) {
  const sums = ready.map(() => 0);
  const last = ready.map(() => -1);
  const owner = reducer.layout.parameters.map(() => -1);
  for (const [number, mine] of ready.entries()) {
    for (const parameter of mine) {
      owner[parameter] = number;
      last[number] = Math.max(last[number], parameter);
      sums[number] = sums[number] + reducer.layout.parameters[parameter].elements;
    }
  }
  /** @type {Buffer[]} */
  const late = [];
  for (const [parameter, number] of owner.entries()) {
    if (overflows(reducer, parameter)) reduce_bucket(draft, reducer);
    put(reducer, parameter);
    if (last[number] !== parameter) continue;
    /** @type {Buffer} */
    const whole = ["whole_gradients", reducer.each * sums[number]];
    if (outside(reducer, parameter)) late.push(whole);
    else give(draft, [whole]);
  }
  reduce_bucket(draft, reducer);
  give(draft, late);
}

/**
 * Stages 1 and 2 in issue order. Stage 2 reduces every micro-step, stage 1 the last one. The updated parameters
 * come back in one all-gather.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 */
export function sharded(setup, stage) {
  const layout = layout_of(setup);
  const reducer = reducer_of(setup, stage, layout);
  const { sizes, cluster } = reducer;
  const runs = runs_of(layout);
  const ready = ready_order(layout);
  const buffers = buffers_of(reducer);
  const early = stage === 2 || reducer.overlap; // gradients are reduced as they are ready
  const stores = stage === 1 && (!reducer.overlap || setup.accumulation > 1);
  const share = overlapped(setup, layout);
  const again = stage === 2 && setup.offload === "none" && !accumulates_apart(setup, stage);
  const draft = make_draft();
  for (let micro_step = 1; micro_step <= setup.accumulation; micro_step += 1) {
    const final = micro_step === setup.accumulation;
    const hooked = early && (stage === 2 || final);
    let stored = "";
    if (stores && hooked) stored = "gives";
    else if (stores) stored = micro_step === 1 ? "takes" : "adds";
    const opens = stage === 2 || micro_step === 1;
    /** @type {Buffer[]} This micro-step's share of gradients, before it is added to the sum. */
    const anew = [];
    if (again && micro_step > 1 && cluster.n > 1) anew.push(["buckets", sizes.param * share]);
    reducer.first = anew;
    reducer.number = 0;
    reducer.previous = -1;
    pass_forward(draft, layout, runs, cluster);
    pass_backward(draft, reducer, runs, ready, hooked, stored, opens ? buffers : []);
    if (final && !early) reduce_after(draft, reducer, ready);
    if (stage === 2 || final) give(draft, [...anew, ...buffers]);
  }
  const scalars = setup.param_dtype === "float32" ? ["float32"] : ["uint8", "float32"];
  const owned = padded(setup) / setup.n;
  const apart = accumulates_apart(setup, stage) || setup.offload !== "none";
  const several = layout.parameters[0].elements < owned; // of rank 0's share
  const copies = apart ? 0 : step_copies(sizes, owned, several);
  update(draft, scalars, step_seconds(sizes, owned, cluster), copies, cluster);
  gather_parameters(draft, setup, sizes, cluster);
  return finished(draft);
}

/**
 * Write the all-gather of all updated parameters.
 * @param {Draft} draft
 * @param {Readonly<Setup>} setup
 * @param {Sizes} sizes
 * @param {Cluster} cluster
 */
export function gather_parameters(draft, setup, sizes, cluster) {
  if (cluster.n === 1) return;
  const { dtype, param } = sizes;
  communicate(draft, draft.compute, "all_gather", "", "step", padded(setup), dtype, param, cluster, "");
}

/**
 * Stage 0, and stage 1 as BF16_Optimizer: gradients are reduced when the last backward pass is over. Stage 0 in the
 * order of the model; BF16_Optimizer all of them at once, cast from float32.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 */
export function replicated(setup, stage) {
  const layout = layout_of(setup);
  const reducer = reducer_of(setup, stage, layout);
  const { sizes, cluster } = reducer;
  const { dtype, param } = sizes;
  const runs = runs_of(layout);
  const ready = ready_order(layout);
  const apart = keeps_whole_gradients(setup, stage);
  const draft = make_draft();
  for (let micro_step = 1; micro_step <= setup.accumulation; micro_step += 1) {
    pass_forward(draft, layout, runs, cluster);
    pass_backward(draft, reducer, runs, ready, false, micro_step === 1 ? "held" : "adds", []);
  }
  if (cluster.n > 1) {
    /** @type {Piece[]} */
    const pieces = apart
      ? [{ op: "all_reduce", elements: padded(setup), copied: true }]
      : plain_pieces(layout);
    for (const [number, { op, elements, copied }] of pieces.entries()) {
      const group = `bucket ${number}`;
      communicate(draft, draft.compute, op, group, "backward", elements, dtype, param, cluster, "");
      if (copied) during(draft, ["buckets", param * elements]);
    }
    draft.waits = [draft.comm];
  }
  const single = setup.param_dtype === "float32";
  const owned = apart ? padded(setup) / setup.n : setup.N;
  const copies = single || apart ? 0 : 4 * setup.N;
  update(draft, single ? ["float32"] : [], step_seconds(sizes, owned, cluster), copies, cluster);
  if (apart) gather_parameters(draft, setup, sizes, cluster);
  return finished(draft);
}

/**
 * The reductions of stage 0: a new one begins when what is there is more than 5e8 elements.
 * @param {Layout} layout
 */
export function plain_pieces(layout) {
  const sizes = layout.parameters.map((parameter) => parameter.elements);
  return pieces_past(PLAIN_BUCKET, sizes, "all_reduce");
}
