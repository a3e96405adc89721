// Which stage to choose, and the numbers in words. Mirrors src/zerowidget/advice.py.

import { at_rest, nbytes_of } from "./memory.js";
import { summary } from "./rows.js";
import { cluster_of, FIELDS, GPUS, LINKS, resized, total } from "./specs.js";
import { collectives_of } from "./systems/index.js";
import { step_of } from "./timeline.js";
import {
  amount,
  count,
  duration,
  exponential,
  in_unit,
  plain,
  say,
  scaled_size,
  size,
  trimmed,
} from "./words.js";

/** @typedef {import("./rows.js").SummaryRow} SummaryRow */
/** @typedef {import("./specs.js").Setup} Setup */

/**
 * @typedef {object} Chosen
 * @property {number | null} stage null when none fits
 * @property {number} capacity bytes
 * @property {number} rest bytes, of that stage or of stage 3
 * @property {number} peak bytes, of that stage or of stage 3
 * @property {boolean} fits_peak
 * @property {number | null} relative communication against plain data parallelism, null on one GPU
 * @property {number | null} smallest_n GPUs from which stage 3 fits; null when some stage fits or none ever does
 * @property {number | null} break_even bytes/s, see there, of stage 3
 */

/** @typedef {Chosen & {text: string}} Advice */

/**
 * The lowest stage that fits the GPU at the peak of its step, or where none does, at rest; and why.
 * @param {Readonly<Setup>} setup
 * @param {import("./rows.js").SummaryRow[]} [rows] the summary, if at hand
 * @returns {Advice}
 */
export function advice(setup, rows = summary(setup)) {
  const peaks = rows.filter((row) => row.fits_peak);
  const fitting = peaks.length > 0 ? peaks : rows.filter((row) => row.fits);
  const row = fitting.length > 0 ? fitting[0] : rows[3];
  const { rest, peak, fits_peak, relative } = row;
  const stage = fitting.length > 0 ? row.stage : null;
  const found = fitting.length > 0 ? null : smallest_n(setup, 3);
  const chosen = {
    stage,
    capacity: cluster_of(setup).capacity,
    rest,
    peak,
    fits_peak,
    relative,
    smallest_n: found,
    break_even: break_even(rows[3]),
  };
  return { ...chosen, text: advice_text(setup, chosen) };
}

/**
 * The fewest GPUs with which `stage` fits at rest; null when the largest n allowed does not.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 * @returns {number | null}
 */
export function smallest_n(setup, stage) {
  const { capacity } = cluster_of(setup);
  const fits = (/** @type {number} */ n) => nbytes_of(at_rest(resized(setup, n, stage), stage)) <= capacity;
  let low = 0; // low does not fit, high does
  let high = /** @type {number} */ (FIELDS.n.max);
  if (!fits(high)) return null;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (fits(middle)) high = middle;
    else low = middle;
  }
  return high;
}

/**
 * The advice as two or three sentences in the setup's language.
 * @param {Readonly<Setup>} setup
 * @param {Chosen} chosen
 */
export function advice_text(setup, chosen) {
  const { language, unit } = setup;
  const { stage } = chosen;
  const gpu = GPUS[setup.gpu].label;
  const capacity = size(chosen.capacity, unit);
  const rest = size(chosen.rest, unit);
  /** @type {string[]} */
  const said = [];
  if (stage === null) {
    said.push(say("fit_none", language, { gpu, rest, capacity }));
    const found = chosen.smallest_n;
    if (found === null) said.push(say("fit_never", language, { n: /** @type {number} */ (FIELDS.n.max) }));
    else said.push(say("fit_more", language, { n: found }));
  } else {
    const key = stage === 0 ? "fit_all" : stage === 3 ? "fit_only" : "fit_from";
    said.push(say(key, language, { stage, gpu, capacity }));
    said.push(say("enough", language, { stage, rest, price: price_text(setup, chosen.relative) }));
    if (!chosen.fits_peak) said.push(say("fit_peak", language, { peak: size(chosen.peak, unit) }));
  }
  said.push(say(setup.n === 1 ? "fit_alone" : "fit_scope", language));
  return said.join(language === "zh" ? "" : " ");
}

/**
 * The bandwidth per rank, bytes/s, from which a step's communication can hide behind its compute; null when there
 * is nothing to send, or when the latencies alone take longer.
 * @param {SummaryRow} row
 */
export function break_even(row) {
  const seconds = row.compute - row.latency;
  return row.wire_bytes > 0 && seconds > 0 ? row.wire_bytes / seconds : null;
}

/**
 * What a stage costs in communication.
 * @param {Readonly<Setup>} setup
 * @param {number | null} relative
 */
export function price_text(setup, relative) {
  if (relative === null) return say("price_alone", setup.language);
  if (trimmed(relative, 2) === "1") return say("price_none", setup.language);
  return say("price_less", setup.language, { relative: trimmed(relative, 2) });
}

/** The three model states; what is neither parameters nor gradients nor a buffer is the optimizer's. */
export const KINDS = ["parameters", "gradients", "optimizer"];

/**
 * What the stage holds at rest, with N and n filled in: "(2N + 2N + 12N)/n = 16 × 7.5e9 / 64 = ...". What is no
 * multiple of N, a buffer, stands as what it takes.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 */
export function formula(setup, stage) {
  const held = at_rest(setup, stage).filter(({ device }) => device === "gpu");
  const N = exponential(setup.N, 3);
  /** @type {string[]} */
  const symbols = [];
  /** @type {string[]} */
  const figures = [];
  for (const head of held) {
    const { over, falls } = head;
    const same = held.filter((part) => part.over === over && part.falls === falls);
    if (same[0] !== head) continue; // it is told with the first of its kind
    const letter = falls ? "n" : String(over);
    const shares = same.filter((part) => part.each > 0);
    /** @type {string[]} */
    const terms = [];
    for (const kind of KINDS) {
      const each = total(shares.filter(({ state }) => kind_of(state) === kind).map((part) => part.each));
      if (each > 0) terms.push(`${plain(each)}N`);
    }
    if (terms.length === 0) continue;
    const share = `${plain(total(shares.map((part) => part.each)))} × ${N}`;
    if (letter === "1") {
      symbols.push(...terms);
      figures.push(share);
    } else {
      const joined = terms.join(" + ");
      symbols.push(terms.length > 1 ? `(${joined})/${letter}` : `${joined}/${letter}`);
      figures.push(`${share} / ${over}`);
    }
  }
  for (const { state, each, nbytes } of held) {
    if (each === 0 && nbytes > 0) {
      symbols.push(say(state, setup.language));
      figures.push(exponential(nbytes, 3));
    }
  }
  const rest = nbytes_of(held);
  const value = in_unit(rest, setup.unit);
  const text = value >= 0.1 ? trimmed(value, 2) : amount(value);
  return say("formula", setup.language, {
    size: `${text} ${setup.unit}`,
    symbols: symbols.join(" + "),
    figures: figures.join(" + "),
    nbytes: exponential(rest, 3),
  });
}

/**
 * Which of the three model states a state belongs to.
 * @param {string} state
 */
export function kind_of(state) {
  return state === "parameters" || state === "gradients" ? state : "optimizer";
}

/** @type {Record<string, string>} What each collective moves, in the order in which a sentence names them. */
export const MOVED = {
  all_gather: "parameters",
  broadcast: "parameters",
  reduce_scatter: "gradients",
  all_reduce: "gradients",
  reduce: "gradients",
};

/**
 * A collective and what it moves.
 * @param {string} op
 * @param {string} language
 */
export function moved(op, language) {
  return say("moved", language, { op: say(op, language), kind: say(MOVED[op], language) });
}

/**
 * What the stage of that summary row communicates in one step.
 * @param {Readonly<Setup>} setup
 * @param {SummaryRow} row
 * @param {import("./timeline.js").Step} [step] its schedule, if at hand
 */
export function movement(setup, row, step = step_of(setup, row.stage)) {
  const { language } = setup;
  if (row.relative === null) return say("moves_alone", language);
  /** @type {string[]} */
  const parts = [];
  const ops = step.spans.map(({ op }) => op);
  const collectives = collectives_of(setup, row.stage, ops);
  for (const name in MOVED) {
    let times = 0;
    for (const entry of collectives) {
      if (entry.op === name) times = times + entry.elements / setup.N;
    }
    // single numbers, such as a norm, go without saying
    if (trimmed(times, 2) !== "0") {
      const often = trimmed(times, 2) === "1" ? "" : `${trimmed(times, 2)} × `;
      parts.push(often + moved(name, language));
    }
  }
  const said = say("moves_stage", language, {
    elements: `${trimmed(row.volume / setup.N, 2)}N = ${count(row.volume)}`,
    what: parts.join(" + "),
    wire: size(row.wire_bytes, setup.unit),
    relative: trimmed(row.relative, 2),
  });
  const sentences = [said];
  const one_ring = row.between_bytes === 0 || row.between_bytes === row.wire_bytes;
  if (!one_ring)
    sentences.push(say("moves_between", language, { between: size(row.between_bytes, setup.unit) }));
  const each = trimmed(row.messages / setup.layers, 2);
  const values = { messages: row.messages, each, latency: duration(row.latency) };
  sentences.push(say("moves_messages", language, values));
  const needed = break_even(row);
  if (row.stage === 3 && needed !== null && one_ring) {
    const carried = scaled_size(cluster_of(setup).bandwidth, "GB");
    sentences.push(say("moves_hidden", language, { needed: scaled_size(needed, "GB"), carried }));
  }
  return sentences.join(language === "zh" ? "" : " ");
}

/**
 * The links that a collective crosses; those of replicas are a group of shards apart.
 * @param {Readonly<Setup>} setup
 * @param {import("./program.js").Op} op
 */
export function ring_of(setup, op) {
  return cluster_of(setup, op.ranks, op.stream === "replicas" ? setup.n / op.ranks : 1);
}

/**
 * Whether some collectives stay inside a node and others leave it: the former are drawn thin.
 * @param {import("./timeline.js").Step} step
 */
export function some_stay_inside(step) {
  const moving = step.spans.filter(({ op }) => op.stream !== "compute");
  return moving.some(({ op }) => op.leaves) && !moving.every(({ op }) => op.leaves);
}

/**
 * The links of a step, each with its bandwidth: "400 GB/s over InfiniBand NDR".
 * @param {Readonly<Setup>} setup
 * @param {import("./timeline.js").Step} step
 */
export function rings(setup, step) {
  const { language } = setup;
  const mixed = some_stay_inside(step);
  /** @type {Record<string, string>} */
  const found = {};
  for (const { op } of step.spans) {
    const key = `${op.ranks} ${op.stream}`;
    if (op.stream === "compute" || key in found) continue;
    const { bandwidth, link } = ring_of(setup, op);
    const values = { bandwidth: `${scaled_size(bandwidth, "GB")}/s`, link: LINKS[link].label };
    const ring = say("ring", language, values);
    found[key] = mixed && !op.leaves ? say("ring_thin", language, { ring }) : ring;
  }
  return [...new Set(Object.values(found))].join(" \u00b7 ") || say("ring_none", language);
}

/**
 * The selected stage in words, in the setup's language, keys in reading order.
 * @param {Readonly<Setup>} setup
 * @param {import("./rows.js").SummaryRow[]} [rows] the summary, if at hand
 * @param {import("./timeline.js").Step} [step] the selected stage's schedule, if at hand
 * @returns {{headline: string, costs: string, formula: string, moves: string, fits: string}}
 */
export function explain(setup, rows = summary(setup), step = undefined) {
  const row = rows[setup.stage];
  return {
    headline: say("headline", setup.language, { stage: setup.stage, rest: size(row.rest, setup.unit) }),
    costs: costs_text(setup, row),
    formula: formula(setup, setup.stage),
    moves: movement(setup, row, step),
    fits: advice(setup, rows).text,
  };
}

/**
 * Peak, communication and waiting in one line.
 * @param {Readonly<Setup>} setup
 * @param {SummaryRow} row
 */
export function costs_text(setup, row) {
  const values = { peak: size(row.peak, setup.unit), step: duration(row.step) };
  if (row.relative === null) return say("costs_alone", setup.language, values);
  const relative = trimmed(row.relative, 2);
  return say("costs", setup.language, { relative, exposed: duration(row.exposed), ...values });
}
