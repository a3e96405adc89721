// What the stages of DeepSpeed share: bytes per parameter, what a rank owns, and how a program is written.
// Mirrors src/zerowidget/systems/deepspeed/parts.py, where the sources are.

import { collective_op, make_op } from "../../program.js";
import { DTYPE_BYTES, recipe_of } from "../../specs.js";

/** @typedef {import("../../layout.js").Layout} Layout */
/** @typedef {import("../../program.js").Buffer} Buffer */
/** @typedef {import("../../program.js").Op} Op */
/** @typedef {import("../../specs.js").Cluster} Cluster */
/** @typedef {import("../../specs.js").Setup} Setup */

/** @type {Record<string, number>} */
export const SCALAR_BYTES = { uint8: 1, float32: 4, float64: 8 };

/** Elements that every rank's share of a flat buffer is a multiple of. */
export const ALIGNMENT = 2;

/** @type {any[]} */
const NONE = [];

/**
 * Bytes per parameter at one stage. DeepSpeed's states follow its data types, not the recipe.
 * @typedef {object} Sizes
 * @property {string} dtype of parameters, and of gradients as they travel
 * @property {number} param
 * @property {number} accumulated gradients as they wait for the optimizer
 * @property {number} master 0 where the optimizer steps the parameters themselves
 * @property {[string, number][]} moments states of the optimizer, by name
 */

/**
 * Stages 1-3 keep a float32 master even beside float32 parameters. Stage 0 has no gradient type of its own.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 * @returns {Sizes}
 */
export function sizes_of(setup, stage) {
  /** @type {Record<string, number>} */
  const bytes = DTYPE_BYTES;
  const param = bytes[setup.param_dtype];
  const chosen = setup.grad_accum_dtype;
  const accumulated = chosen === null || stage === 0 ? param : bytes[chosen];
  const master = stage === 0 && setup.param_dtype === "float32" ? 0 : 4;
  /** @type {[string, number][]} */
  const moments = [];
  for (const [state, kind, each] of recipe_of(setup).states) {
    if (kind === "optimizer" && state !== "master" && state !== "main_gradients") moments.push([state, each]);
  }
  return { dtype: setup.param_dtype, param, accumulated, master, moments };
}

/**
 * Whether stage 1 turns into BF16_Optimizer, which accumulates whole gradients in float32.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 */
export function keeps_whole_gradients(setup, stage) {
  const mixed = setup.param_dtype === "bfloat16" && setup.grad_accum_dtype === "float32";
  return stage === 1 && mixed && setup.offload === "none";
}

/**
 * Whether gradients of 16 bits are summed straight into this rank's float32 share of them.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 */
export function accumulates_apart(setup, stage) {
  return (
    (stage === 1 || stage === 2) &&
    setup.param_dtype !== "float32" &&
    setup.grad_accum_dtype === "float32" &&
    !keeps_whole_gradients(setup, stage)
  );
}

/**
 * `overlap_comm`, which DeepSpeed sets at stage 3 alone when nobody does.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 * @returns {boolean}
 */
export function overlaps(setup, stage) {
  return setup.overlap_comm ?? stage === 3;
}

/**
 * The first multiple of `parts` that is not less.
 * @param {number} elements
 * @param {number} parts
 */
export function rounded_up(elements, parts) {
  return Math.ceil(elements / parts) * parts;
}

/**
 * Elements of the flat buffer of stages 1 and 2: N, padded so that all shares are equal and aligned. Without
 * shapes nothing is padded.
 * @param {Readonly<Setup>} setup
 */
export function padded(setup) {
  return setup.shapes === null ? setup.N : rounded_up(setup.N, ALIGNMENT * setup.n);
}

/**
 * Elements of the parameters that reach into the first rank's share of stages 1 and 2, whole.
 * @param {Readonly<Setup>} setup
 * @param {Layout} layout
 */
export function overlapped(setup, layout) {
  const share = padded(setup) / setup.n;
  if (setup.shapes === null) return share;
  let reached = 0;
  for (const parameter of layout.parameters) {
    if (reached >= share) break;
    reached = reached + parameter.elements;
  }
  return reached;
}

/**
 * Elements of every parameter as stage 3 moves it: padded to one chunk per rank.
 * @param {Readonly<Setup>} setup
 * @param {Layout} layout
 */
export function travelling(setup, layout) {
  if (setup.shapes === null) return layout.parameters.map((parameter) => parameter.elements);
  return layout.parameters.map((parameter) => rounded_up(parameter.elements, setup.n));
}

/**
 * Seconds of an optimizer step over `elements` parameters, with gradients in float32.
 * @param {Sizes} sizes
 * @param {number} elements
 * @param {Cluster} cluster
 */
export function step_seconds(sizes, elements, cluster) {
  let states = sizes.master;
  for (const [, each] of sizes.moments) states = states + each;
  return ((2 * states + 4 + sizes.param) * elements) / cluster.memory_bandwidth;
}

/**
 * A program as it is written: its ops, and the buffers of each, which come later.
 * @typedef {object} Draft
 * @property {Op[]} ops
 * @property {Buffer[][]} takes
 * @property {Buffer[][]} gives
 * @property {number} compute index of the last op of the compute stream
 * @property {number} comm index of the last op of the network
 * @property {number[]} waits what the next op of the compute stream waits for
 */

/** @returns {Draft} */
export function make_draft() {
  return { ops: [], takes: [], gives: [], compute: -1, comm: -1, waits: [] };
}

/**
 * Write an op of the compute stream; it waits for what was said to wait for.
 * @param {Draft} draft
 * @param {string} op
 * @param {string} group
 * @param {string} phase
 * @param {number} length
 * @param {string} module
 */
export function compute(draft, op, group, phase, length, module) {
  draft.compute = draft.ops.length;
  write(draft, make_op(op, group, phase, "compute", length, draft.waits, NONE, NONE, module));
  draft.waits = [];
}

/**
 * Write a collective that waits for one op, or for none: -1. `each`: bytes per element.
 * @param {Draft} draft
 * @param {number} after
 * @param {string} op
 * @param {string} group
 * @param {string} phase
 * @param {number} elements
 * @param {string} dtype
 * @param {number} each
 * @param {Cluster} cluster
 * @param {string} module
 */
export function communicate(draft, after, op, group, phase, elements, dtype, each, cluster, module) {
  draft.comm = draft.ops.length;
  const waits = after >= 0 ? [after] : [];
  write(draft, collective_op(op, group, phase, waits, elements, dtype, each * elements, cluster, module));
}

/**
 * Write an op; its buffers come later.
 * @param {Draft} draft
 * @param {Op} op
 */
export function write(draft, op) {
  draft.ops.push(op);
  draft.takes.push([]);
  draft.gives.push([]);
}

/**
 * The op written last allocates buffers when it starts.
 * @param {Draft} draft
 * @param {Buffer[]} buffers
 */
export function take(draft, buffers) {
  draft.takes[draft.takes.length - 1].push(...buffers);
}

/**
 * The op written last frees buffers when it ends.
 * @param {Draft} draft
 * @param {Buffer[]} buffers
 */
export function give(draft, buffers) {
  draft.gives[draft.gives.length - 1].push(...buffers);
}

/**
 * Hold a buffer while the op written last runs.
 * @param {Draft} draft
 * @param {Buffer} buffer
 */
export function during(draft, buffer) {
  take(draft, [buffer]);
  give(draft, [buffer]);
}

/**
 * The ops with their buffers.
 * @param {Draft} draft
 */
export function finished(draft) {
  for (const [index, op] of draft.ops.entries()) {
    op.takes = draft.takes[index];
    op.gives = draft.gives[index];
  }
  return draft.ops;
}

/**
 * Bytes of gradients that the optimizer step makes for a share of `elements`, all there at one moment: it joins
 * those of `several` parameters in one tensor, and casts that to float32.
 * @param {Sizes} sizes
 * @param {number} elements
 * @param {boolean} several
 */
export function step_copies(sizes, elements, several) {
  const joined = several ? sizes.accumulated * elements : 0;
  return joined + (sizes.accumulated < 4 ? 4 * elements : 0);
}

/**
 * Write the optimizer step, after the scalars that all ranks agree on: overflow, and the norm. `copies`: bytes of
 * gradients that live only in it.
 * @param {Draft} draft
 * @param {string[]} scalars
 * @param {number} length
 * @param {number} copies
 * @param {Cluster} cluster
 */
export function update(draft, scalars, length, copies, cluster) {
  if (cluster.n > 1) {
    for (const dtype of scalars) {
      const each = SCALAR_BYTES[dtype];
      communicate(draft, draft.compute, "all_reduce", "", "step", 1, dtype, each, cluster, "");
    }
    if (scalars.length > 0) draft.waits = [draft.comm];
  }
  compute(draft, "optimizer", "", "step", length, "");
  if (copies > 0) during(draft, ["copies", copies]);
}
