// Which stage to choose, and the numbers in words. Mirrors src/zerowidget/advice.py.

import { at_rest, nbytes_of } from "./memory.js";
import { summary } from "./rows.js";
import { but, bytes_of, cluster_of, FIELDS, GPUS, recipe_of } from "./specs.js";
import { system_of } from "./systems/index.js";
import { amount, count, duration, exponential, in_unit, plain, say, size, trimmed } from "./words.js";

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
 */

/** @typedef {Chosen & {text: string}} Advice */

/**
 * The lowest stage whose model states fit the GPU at rest, and why.
 * @param {Readonly<Setup>} setup
 * @param {import("./rows.js").SummaryRow[]} [rows] the summary, if at hand
 * @returns {Advice}
 */
export function advice(setup, rows = summary(setup)) {
  const fitting = rows.filter((row) => row.fits);
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
  const fits = (/** @type {number} */ n) => nbytes_of(at_rest(but(setup, { n }), stage)) <= capacity;
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
 * What a stage costs in communication.
 * @param {Readonly<Setup>} setup
 * @param {number | null} relative
 */
export function price_text(setup, relative) {
  if (relative === null) return say("price_alone", setup.language);
  if (trimmed(relative, 2) === "1") return say("price_none", setup.language);
  return say("price_less", setup.language, { relative: trimmed(relative, 2) });
}

/**
 * What the stage holds at rest, with N and n filled in: "(2N + 2N + 12N)/n = 16 × 7.5e9 / 64 = ...".
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 */
export function formula(setup, stage) {
  const recipe = recipe_of(setup);
  const sharded_from = system_of(setup).SHARDED_FROM;
  /** @type {string[]} */
  const whole = [];
  /** @type {string[]} */
  const sharded = [];
  let whole_bytes = 0;
  let sharded_bytes = 0;
  for (const kind of ["parameters", "gradients", "optimizer"]) {
    const nbytes = bytes_of(recipe, kind);
    if (nbytes > 0 && stage >= sharded_from[kind]) {
      sharded.push(`${plain(nbytes)}N`);
      sharded_bytes = sharded_bytes + nbytes;
    } else if (nbytes > 0) {
      whole.push(`${plain(nbytes)}N`);
      whole_bytes = whole_bytes + nbytes;
    }
  }
  const N = exponential(setup.N, 3);
  const symbols = whole.slice();
  /** @type {string[]} */
  const figures = [];
  if (whole.length > 0) figures.push(`${plain(whole_bytes)} × ${N}`);
  if (sharded.length > 0) {
    const terms = sharded.join(" + ");
    symbols.push(sharded.length > 1 ? `(${terms})/n` : `${terms}/n`);
    figures.push(`${plain(sharded_bytes)} × ${N} / ${setup.n}`);
  }
  const rest = nbytes_of(at_rest(setup, stage));
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
 * What the stage of that summary row communicates in one step.
 * @param {Readonly<Setup>} setup
 * @param {SummaryRow} row
 */
export function movement(setup, row) {
  const { language } = setup;
  if (row.relative === null) return say("moves_alone", language);
  /** @type {string[]} */
  const parts = [];
  const collectives = system_of(setup).collectives(setup, row.stage);
  for (const name of ["all_gather", "reduce_scatter", "all_reduce"]) {
    let times = 0;
    for (const entry of collectives) {
      if (entry.op === name) times += entry.count / setup.layers;
    }
    if (times > 0) {
      const kind = name === "all_gather" ? "parameters" : "gradients";
      const often = times === 1 ? "" : `${times} × `;
      const words = { op: say(name, language), kind: say(kind, language) };
      parts.push(say("moves_part", language, { times: often, ...words }));
    }
  }
  return say("moves_stage", language, {
    elements: `${trimmed(row.volume / setup.N, 2)}N = ${count(row.volume)}`,
    what: parts.join(" + "),
    wire: size(row.wire_bytes, setup.unit),
    relative: trimmed(row.relative, 2),
  });
}

/**
 * The selected stage in words, in the setup's language, keys in reading order.
 * @param {Readonly<Setup>} setup
 * @param {import("./rows.js").SummaryRow[]} [rows] the summary, if at hand
 * @returns {{headline: string, costs: string, formula: string, moves: string, fits: string}}
 */
export function explain(setup, rows = summary(setup)) {
  const row = rows[setup.stage];
  return {
    headline: say("headline", setup.language, { stage: setup.stage, rest: size(row.rest, setup.unit) }),
    costs: costs_text(setup, row),
    formula: formula(setup, setup.stage),
    moves: movement(setup, row),
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
