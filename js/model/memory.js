// Bytes per GPU: at rest, and on top of that at the peak of a step. Mirrors src/zerowidget/memory.py.

import { make_setup, total } from "./specs.js";
import { system_of } from "./systems/index.js";

/** @typedef {import("./specs.js").Setup} Setup */
/** @typedef {import("./timeline.js").Step} Step */
/** @typedef {[string, string, number]} Held State, device (gpu, cpu, nvme), bytes. */

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
 * What comes on top at the moment of the step when most is held; parts that are nothing are left out.
 * @param {Step} step
 * @returns {Held[]}
 */
export function on_top(step) {
  /** @type {Held[]} */
  const parts = [
    ["gathered", "gpu", step.peak.gathered],
    ["buckets", "gpu", step.peak.buckets],
  ];
  return parts.filter(([, , nbytes]) => nbytes > 0);
}

/**
 * All bytes of a list of what is held.
 * @param {Held[]} held
 */
export function nbytes_of(held) {
  return total(held.map(([, , nbytes]) => nbytes));
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
