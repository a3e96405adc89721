// What DeepSpeed 0.19.8 really holds and does, by its source and by recordings of it.
// Mirrors src/zerowidget/systems/deepspeed/__init__.py, where the sources are.

import { layout_of } from "../../layout.js";
import { make_held } from "../../program.js";
import {
  accumulates_apart,
  keeps_whole_gradients,
  overlapped,
  padded,
  sizes_of,
  travelling,
} from "./parts.js";
import { replicated, sharded } from "./replicated.js";
import { program3 } from "./stage3.js";

/** @typedef {import("../../layout.js").Layout} Layout */
/** @typedef {import("../../program.js").Held} Held */
/** @typedef {import("../../specs.js").Setup} Setup */
/** @typedef {import("./parts.js").Sizes} Sizes */

/**
 * One step in issue order.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 */
export function program(setup, stage) {
  if (stage === 3) return program3(setup);
  if (stage === 0 || keeps_whole_gradients(setup, stage)) return replicated(setup, stage);
  return sharded(setup, stage);
}

/**
 * At rest, per rank in bytes: after the backward pass, before the optimizer step.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 * @returns {Held[]}
 */
export function hold(setup, stage) {
  const layout = layout_of(setup);
  const sizes = sizes_of(setup, stage);
  if (stage === 0) return replicated_states(setup, sizes);
  if (stage === 3) return partitioned_states(setup, sizes, layout);
  return sharded_states(setup, stage, sizes, layout);
}

/**
 * Something that every rank holds whole.
 * @param {string} state
 * @param {number} each
 * @param {number} elements
 */
export function row(state, each, elements) {
  return make_held(state, "gpu", each * elements, each);
}

/**
 * Something of which every rank holds its share of `elements`.
 * @param {string} state
 * @param {string} device
 * @param {number} each
 * @param {number} elements
 * @param {Readonly<Setup>} setup
 */
export function share(state, device, each, elements, setup) {
  return make_held(state, device, each * elements, each, setup.n, true);
}

/**
 * Stage 0: everything whole. Offloading has no effect here.
 * @param {Readonly<Setup>} setup
 * @param {Sizes} sizes
 */
export function replicated_states(setup, sizes) {
  const held = [row("parameters", sizes.param, setup.N), row("gradients", sizes.param, setup.N)];
  if (sizes.master > 0) held.push(row("master", sizes.master, setup.N));
  for (const [state, each] of sizes.moments) held.push(row(state, each, setup.N));
  return held;
}

/**
 * Stages 1 and 2: whole parameters, and a share of what belongs to the optimizer. With the optimizer on the CPU,
 * gradients go there in float32 as soon as they are reduced, and one parameter's worth of buffer stays on either side.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 * @param {Sizes} sizes
 * @param {Layout} layout
 */
export function sharded_states(setup, stage, sizes, layout) {
  const whole = padded(setup);
  const reached = overlapped(setup, layout);
  const owned = whole / setup.n;
  const away = setup.offload === "cpu";
  const device = away ? "cpu" : "gpu";
  const held = [row("parameters", sizes.param, whole)];
  if (keeps_whole_gradients(setup, stage)) {
    held.push(row("gradients", sizes.param, setup.N));
    held.push(row("main_gradients", sizes.accumulated, whole));
  } else if (accumulates_apart(setup, stage)) {
    held.push(share("gradients", "gpu", 4, owned, setup));
  } else if (!away) {
    held.push(share("gradients", "gpu", sizes.param, reached, setup));
  }
  if (away) held.push(share("gradients", "cpu", 4, owned, setup));
  held.push(share("master", device, sizes.master, owned, setup));
  for (const [state, each] of sizes.moments) held.push(share(state, device, each, owned, setup));
  if (away) {
    let largest = 0;
    for (const parameter of layout.parameters) largest = Math.max(largest, parameter.elements);
    held.push(make_held("buckets", "gpu", sizes.param * largest));
    held.push(make_held("buckets", "cpu", sizes.param * largest));
    if (setup.accumulation > 1 && !accumulates_apart(setup, stage)) {
      held.push(share("whole_gradients", "cpu", sizes.param, reached, setup));
    }
    held.push(share("copies", "cpu", sizes.param, owned, setup));
  }
  return held;
}

/**
 * Stage 3: a share of everything, every parameter padded to one chunk per rank. Small parameters stay whole beside
 * their share, and the bucket of gradients is allocated once and for all. The optimizer on the CPU takes the gradients
 * with it, and holds them once more in float32.
 * @param {Readonly<Setup>} setup
 * @param {Sizes} sizes
 * @param {Layout} layout
 */
export function partitioned_states(setup, sizes, layout) {
  let moved = 0;
  for (const elements of travelling(setup, layout)) moved = moved + elements;
  const owned = setup.shapes !== null ? moved / setup.n : setup.N / setup.n;
  let kept = 0;
  for (const parameter of layout.parameters) {
    if (parameter.elements <= setup.stage3_param_persistence_threshold) kept = kept + parameter.elements;
  }
  const away = setup.offload === "cpu";
  const device = away ? "cpu" : "gpu";
  const held = [share("parameters", "gpu", sizes.param, owned, setup)];
  held.push(share("gradients", device, sizes.accumulated, owned, setup));
  held.push(share("master", device, sizes.master, owned, setup));
  for (const [state, each] of sizes.moments) held.push(share(state, device, each, owned, setup));
  if (kept > 0 && setup.n > 1) held.push(make_held("gathered", "gpu", sizes.param * kept));
  if (setup.contiguous_gradients) {
    held.push(make_held("buckets", "gpu", sizes.param * setup.reduce_bucket_size));
  }
  if (away) held.push(share("copies", "cpu", 4, owned, setup));
  return held;
}
