// From a program to times: one forward pass over FIFO streams, then what is exposed and what is live.
// Mirrors src/zerowidget/timeline.py.

import { BUFFERS } from "./program.js";
import { system_of } from "./systems/index.js";

/** @typedef {import("./program.js").Buffer} Buffer */
/** @typedef {import("./program.js").Op} Op */
/** @typedef {import("./specs.js").Setup} Setup */

/**
 * An op with its time; seconds from the start of the step.
 * @typedef {object} Span
 * @property {Op} op
 * @property {number} start
 * @property {number} end
 * @property {number | null} cause index of the span whose end let this one start; null: it starts at once
 */

/**
 * What is held on top of rest from `time` until the next entry, in bytes; names as in BUFFERS.
 * @typedef {object} Live
 * @property {number} time
 * @property {number} gathered
 * @property {number} buckets
 * @property {number} whole_gradients
 * @property {number} copies
 * @property {number} nbytes all of them
 */

/**
 * One step of a stage, scheduled.
 * @typedef {object} Step
 * @property {number} stage
 * @property {Span[]} spans
 * @property {number[]} exposed seconds, per span: the part of a collective during which compute waits
 * @property {number} seconds
 * @property {Live[]} live
 * @property {Live} peak the entry of `live` that holds most
 */

/**
 * The step that `setup` takes at `stage`.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 * @returns {Step}
 */
export function step_of(setup, stage) {
  const spans = schedule(system_of(setup).program(setup, stage));
  let seconds = 0;
  for (const span of spans) seconds = Math.max(seconds, span.end);
  const live = live_bytes(spans);
  /** @type {Live} */
  let peak = { time: 0, gathered: 0, buckets: 0, whole_gradients: 0, copies: 0, nbytes: 0 };
  for (const entry of live) {
    if (entry.nbytes > peak.nbytes) peak = entry;
  }
  return { stage, spans, exposed: exposed_seconds(spans, seconds), seconds, live, peak };
}

/**
 * Each op starts when its stream is free and all it waits for has ended.
 * @param {Op[]} ops
 * @returns {Span[]}
 */
export function schedule(ops) {
  /** @type {Span[]} */
  const spans = [];
  /** @type {Record<string, number | undefined>} */
  const last = {};
  for (let index = 0; index < ops.length; index += 1) {
    const op = ops[index];
    let start = 0;
    /** @type {number | null} */
    let cause = null;
    for (const before of op.waits_for) {
      if (spans[before].end > start) {
        start = spans[before].end;
        cause = before;
      }
    }
    const previous = last[op.stream];
    if (previous !== undefined && spans[previous].end > start) {
      start = spans[previous].end;
      cause = previous;
    }
    spans.push({ op, start, end: start + op.seconds, cause });
    last[op.stream] = index;
  }
  return spans;
}

/**
 * When the compute stream stands still before `end`.
 * @param {Span[]} spans
 * @param {number} end
 */
export function gaps_of(spans, end) {
  /** @type {[number, number][]} */
  const gaps = [];
  let busy_until = 0;
  for (const span of spans) {
    if (span.op.stream === "compute") {
      if (span.start > busy_until) gaps.push([busy_until, span.start]);
      busy_until = span.end;
    }
  }
  if (end > busy_until) gaps.push([busy_until, end]);
  return gaps;
}

/**
 * Per span, how long it runs while the compute stream stands still before `end`. Where collectives run side by
 * side on streams of their own, a moment counts for the one that began first.
 * @param {Span[]} spans
 * @param {number} end
 * @returns {number[]}
 */
export function exposed_seconds(spans, end) {
  const gaps = gaps_of(spans, end);
  /** @type {number[]} */
  const exposed = [];
  /** @type {number[]} */
  const network = [];
  for (let index = 0; index < spans.length; index += 1) {
    exposed.push(0);
    if (spans[index].op.stream !== "compute") network.push(index);
  }
  network.sort((a, b) => spans[a].start - spans[b].start);
  let first = 0; // gaps before it are over
  let until = 0; // moments before it are counted
  for (const index of network) {
    const span = spans[index];
    const start = Math.max(span.start, until);
    let seconds = 0;
    while (first < gaps.length && gaps[first][1] <= start) first += 1;
    for (let gap = first; gap < gaps.length && gaps[gap][0] < span.end; gap += 1) {
      seconds = seconds + Math.max(0, Math.min(gaps[gap][1], span.end) - Math.max(gaps[gap][0], start));
    }
    exposed[index] = seconds;
    until = Math.max(until, span.end);
  }
  return exposed;
}

/**
 * What the step holds on top of rest, over time. At one moment, frees come before allocations: that moment is
 * when the second waited for the first.
 * @param {Span[]} spans
 * @returns {Live[]}
 */
export function live_bytes(spans) {
  /** @type {{time: number, takes: number, buffer: Buffer}[]} */
  const changes = [];
  for (const span of spans) {
    for (const buffer of span.op.takes) changes.push({ time: span.start, takes: 1, buffer });
    for (const buffer of span.op.gives) changes.push({ time: span.end, takes: 0, buffer });
    if (span.op.queues.length > 0) {
      let ready = 0;
      for (const before of span.op.waits_for) ready = Math.max(ready, spans[before].end);
      for (const buffer of span.op.queues) changes.push({ time: ready, takes: 1, buffer });
    }
  }
  changes.sort((a, b) => a.time - b.time || a.takes - b.takes);
  /** @type {Live[]} */
  const live = [];
  const held = new Float64Array(4); // by place in BUFFERS; an object with names takes twice the time
  const many = [0, 0, 0, 0];
  for (let index = 0; index < changes.length; index += 1) {
    const { time, takes, buffer } = changes[index];
    const slot = BUFFERS.indexOf(buffer[0]);
    many[slot] += takes ? 1 : -1;
    held[slot] = held[slot] + (takes ? buffer[1] : -buffer[1]);
    if (many[slot] === 0) held[slot] = 0; // no rounding is left behind
    if (index + 1 === changes.length || changes[index + 1].time > time) {
      const [gathered, buckets, whole_gradients, copies] = held;
      const nbytes = gathered + buckets + whole_gradients + copies;
      live.push({ time, gathered, buckets, whole_gradients, copies, nbytes });
    }
  }
  return live;
}
