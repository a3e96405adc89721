// The forward and backward passes of DeepSpeed's stages 0-2, and when gradients go into buckets.
// Mirrors src/zerowidget/systems/deepspeed/passes.py, where the sources are.

import { part_of } from "../../layout.js";
import { outside, overflows, put, reduce_bucket } from "./buckets.js";
import { compute, during, give, take } from "./parts.js";

/** @typedef {import("../../layout.js").Layout} Layout */
/** @typedef {import("../../program.js").Buffer} Buffer */
/** @typedef {import("../../specs.js").Cluster} Cluster */
/** @typedef {import("./buckets.js").Reducer} Reducer */
/** @typedef {import("./parts.js").Draft} Draft */

/**
 * Modules of one group that run one after the other.
 * @typedef {object} Run
 * @property {string} group
 * @property {number[]} modules
 */

/**
 * The modules in the order of the forward pass, those of a group together.
 * @param {Layout} layout
 */
export function runs_of(layout) {
  /** @type {Run[]} */
  const runs = [];
  for (const [number, module] of layout.modules.entries()) {
    if (runs.length > 0 && runs[runs.length - 1].group === module.group) {
      runs[runs.length - 1].modules.push(number);
    } else {
      runs.push({ group: module.group, modules: [number] });
    }
  }
  return runs;
}

/**
 * Modules whose backward pass is not written yet.
 * @typedef {object} Pending
 * @property {number} length seconds
 * @property {string[]} names
 * @property {Buffer[]} takes
 * @property {Buffer[]} gives
 * @property {number} passing bytes of gradients on their way into the bucket, of one module at a time
 */

/** @returns {Pending} */
function make_pending() {
  return { length: 0, names: [], takes: [], gives: [], passing: 0 };
}

/**
 * Write the backward pass of the modules so far; what pends then.
 * @param {Draft} draft
 * @param {Pending} pending
 * @param {Run} run
 */
export function settle(draft, pending, run) {
  if (pending.names.length === 0) return pending;
  const name = pending.names.length === run.modules.length ? "" : pending.names.join(", ");
  compute(draft, "backward", run.group, "backward", pending.length, name);
  take(draft, pending.takes);
  give(draft, pending.gives);
  if (pending.passing > 0) during(draft, ["buckets", pending.passing]);
  return make_pending();
}

/**
 * Seconds of the forward pass of a run.
 * @param {Layout} layout
 * @param {Run} run
 * @param {Cluster} cluster
 */
export function forward_seconds_of(layout, run, cluster) {
  let length = 0;
  for (const number of run.modules) length = length + layout.modules[number].forward_flops / cluster.flops;
  return length;
}

/**
 * Write one forward pass, group by group.
 * @param {Draft} draft
 * @param {Layout} layout
 * @param {Run[]} runs
 * @param {Cluster} cluster
 */
export function pass_forward(draft, layout, runs, cluster) {
  for (const run of runs) {
    compute(draft, "forward", run.group, "forward", forward_seconds_of(layout, run, cluster), "");
  }
}

/**
 * Write one backward pass; a group is cut where a bucket is full. `hooked`: gradients go into buckets as they are
 * ready. `stored`: what happens to whole gradients that wait for the last micro-step: "" (there are none), "takes",
 * "adds", "gives", or "held": they are there at rest. `opens`: what the first gradient allocates.
 * @param {Draft} draft
 * @param {Reducer} reducer
 * @param {Run[]} runs
 * @param {number[][]} ready
 * @param {boolean} hooked
 * @param {string} stored
 * @param {Buffer[]} opens
 */
export function pass_backward(draft, reducer, runs, ready, hooked, stored, opens) {
  const { layout, cluster } = reducer;
  let pending = make_pending();
  pending.takes.push(...opens);
  for (const run of runs.slice().reverse()) {
    if (reducer.setup.recompute && run.group !== "root") {
      compute(draft, "recompute", run.group, "backward", forward_seconds_of(layout, run, cluster), "");
    }
    for (const number of run.modules.slice().reverse()) {
      const module = layout.modules[number];
      pending.length = pending.length + (2 * module.forward_flops) / cluster.flops;
      pending.names.push(part_of(module.name));
      let mine = 0;
      /** @type {number[]} */
      const left = [];
      for (const parameter of ready[number]) {
        mine = mine + layout.parameters[parameter].elements;
        if (hooked && outside(reducer, parameter)) left.push(parameter);
      }
      if ((stored === "takes" || stored === "gives") && mine > 0) {
        pending[stored].push(["whole_gradients", reducer.each * mine]);
      }
      let waiting = 0;
      for (const parameter of left) {
        const nbytes = reducer.sizes.param * layout.parameters[parameter].elements;
        waiting = waiting + nbytes;
        pending.takes.push(["buckets", nbytes]);
      }
      if (stored !== "takes" && stored !== "held") {
        pending.passing = Math.max(pending.passing, reducer.sizes.param * mine - waiting);
      }
      if (!hooked) continue;
      for (const parameter of ready[number]) {
        if (overflows(reducer, parameter)) {
          pending = settle(draft, pending, run);
          reduce_bucket(draft, reducer);
        }
        put(reducer, parameter);
        if (outside(reducer, parameter)) {
          reducer.kept.push(["buckets", reducer.sizes.param * layout.parameters[parameter].elements]);
        }
      }
    }
    pending = settle(draft, pending, run);
  }
  if (hooked) {
    reduce_bucket(draft, reducer);
    if (reducer.overlap && draft.comm >= 0) draft.waits = [draft.comm]; // the epilogue waits for all of them
  }
}
