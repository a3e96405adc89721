// Bytes per GPU: at rest, and on top of that at the peak of a step. Mirrors src/zerowidget/memory.py.

import { BUFFERS, make_held } from "./program.js";
import { make_setup, total } from "./specs.js";
import { system_of } from "./systems/index.js";

/** @typedef {import("./specs.js").Setup} Setup */
/** @typedef {import("./timeline.js").Step} Step */
/** @typedef {import("./program.js").Held} Held */

/**
 * What a GPU holds between steps, in drawing order.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 * @returns {Held[]}
 */
export function at_rest(setup, stage) {
  return system_of(setup).hold(setup, stage);
}

/**
 * What comes on top at the moment of the step when most is held; parts that are nothing are left out. Only what
 * a sharded optimizer's step copies is a share of 1/n; the rest is whole layers, whole buckets.
 * @param {Step} step
 * @returns {Held[]}
 */
export function on_top(step) {
  /** @type {any} */
  const peak = step.peak;
  const falls = (/** @type {string} */ state) => state === "copies" && step.stage >= 1;
  const parts = BUFFERS.map((state) => make_held(state, "gpu", peak[state], 0, 1, falls(state)));
  return parts.filter(({ nbytes }) => nbytes > 0);
}

/**
 * All bytes of GPU memory in a list of what is held.
 * @param {Held[]} held
 */
export function nbytes_of(held) {
  return total(held.filter(({ device }) => device === "gpu").map(({ nbytes }) => nbytes));
}

/**
 * The article's `perGPU`: model states at rest, in bytes, mixed-precision Adam. Throws SetupError for a bad argument.
 * @param {number} N
 * @param {number} n
 * @param {number} stage
 */
export function bytes_per_gpu(N, n, stage) {
  const setup = make_setup({ N, n, stage });
  return nbytes_of(at_rest(setup, setup.stage));
}
