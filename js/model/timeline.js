// From a program to times: one forward pass over FIFO streams, then what is exposed and what is live.
// Mirrors src/zerowidget/timeline.py.

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
 * What is held on top of rest from `time` until the next entry, in bytes.
 * @typedef {object} Live
 * @property {number} time
 * @property {number} gathered
 * @property {number} buckets
 */

/**
 * One step of a stage, scheduled.
 * @typedef {object} Step
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
  let peak = { time: 0, gathered: 0, buckets: 0 };
  for (const entry of live) {
    if (entry.gathered + entry.buckets > peak.gathered + peak.buckets) peak = entry;
  }
  return { spans, exposed: exposed_seconds(spans, seconds), seconds, live, peak };
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
 * Per span, how long it runs while the compute stream stands still before `end`.
 * @param {Span[]} spans
 * @param {number} end
 * @returns {number[]}
 */
export function exposed_seconds(spans, end) {
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
  /** @type {number[]} */
  const exposed = [];
  let first = 0; // gaps before it are over: spans of the one network stream come in order
  for (const span of spans) {
    let seconds = 0;
    if (span.op.stream !== "compute") {
      while (first < gaps.length && gaps[first][1] <= span.start) first += 1;
      for (let gap = first; gap < gaps.length && gaps[gap][0] < span.end; gap += 1) {
        seconds = seconds + (Math.min(gaps[gap][1], span.end) - Math.max(gaps[gap][0], span.start));
      }
    }
    exposed.push(seconds);
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
    if (span.op.takes !== null) changes.push({ time: span.start, takes: 1, buffer: span.op.takes });
    if (span.op.gives !== null) changes.push({ time: span.end, takes: 0, buffer: span.op.gives });
  }
  changes.sort((a, b) => a.time - b.time || a.takes - b.takes);
  /** @type {Live[]} */
  const live = [];
  const held = new Float64Array(2); // gathered, buckets; an object with two names takes twice the time
  const many = [0, 0];
  for (let index = 0; index < changes.length; index += 1) {
    const { time, takes, buffer } = changes[index];
    const slot = buffer[0] === "gathered" ? 0 : 1;
    many[slot] += takes ? 1 : -1;
    held[slot] = held[slot] + (takes ? buffer[1] : -buffer[1]);
    if (many[slot] === 0) held[slot] = 0; // no rounding is left behind
    if (index + 1 === changes.length || changes[index + 1].time > time) {
      live.push({ time, gathered: held[0], buckets: held[1] });
    }
  }
  return live;
}
