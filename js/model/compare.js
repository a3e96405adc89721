// Two systems side by side: what differs at the selected stage, and where it comes from.
// Mirrors src/zerowidget/compare.py.

import { at_rest, nbytes_of, on_top } from "./memory.js";
import { steps_of, summary } from "./rows.js";
import { but } from "./specs.js";
import { has_word, say } from "./words.js";

/** @typedef {import("./specs.js").Setup} Setup */
/** @typedef {import("./program.js").Held} Held */

/**
 * @typedef {object} Difference
 * @property {string} part
 * @property {"rest" | "peak" | "step"} when
 * @property {"bytes" | "elements" | "count" | "seconds"} quantity
 * @property {number} first
 * @property {number} second
 * @property {string} why
 */

/** @type {Record<string, "elements" | "bytes" | "count" | "seconds">} Columns of the summary that are compared. */
export const QUANTITIES = {
  volume: "elements",
  between_bytes: "bytes",
  messages: "count",
  exposed: "seconds",
  step: "seconds",
};

/**
 * What the words call the system at a stage: PyTorch's stages 0 and 1 are not FSDP2 but DDP.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 */
export function system_key(setup, stage) {
  return setup.system === "fsdp2" && stage < 2 ? "ddp" : setup.system;
}

/**
 * The selected stage of `setup.system` against that of `setup.compare`; nothing without the latter.
 * @param {Readonly<Setup>} setup
 * @returns {Difference[]}
 */
export function differences(setup) {
  if (setup.compare === null || setup.compare === setup.system) return [];
  const sides = [setup, but(setup, { system: setup.compare })];
  const steps = sides.map((side) => steps_of(side));
  return compared(
    sides,
    steps,
    sides.map((side, i) => summary(side, steps[i])),
  );
}

/**
 * The differences of two setups.
 * @param {Readonly<Setup>[]} sides
 * @param {import("./timeline.js").Step[][]} steps their schedules
 * @param {import("./rows.js").SummaryRow[][]} rows their summaries
 * @returns {Difference[]}
 */
export function compared(sides, steps, rows) {
  const { stage } = sides[0];
  /** @type {Difference[]} */
  const found = [];
  for (const when of /** @type {const} */ (["rest", "peak"])) {
    const held = [0, 1].map((i) => (when === "rest" ? at_rest(sides[i], stage) : on_top(steps[i][stage])));
    const states = new Set(held.flat().map(({ state }) => state));
    for (const state of states) {
      const [first, second] = held.map((both) => bytes_in(both, state));
      found.push(line(sides, stage, state, when, "bytes", first, second));
    }
    const [first, second] = rows.map((row) => row[stage][when]);
    found.push(line(sides, stage, when, when, "bytes", first, second));
  }
  for (const [column, quantity] of Object.entries(QUANTITIES)) {
    const [first, second] = rows.map((row) => /** @type {any} */ (row[stage])[column]);
    found.push(line(sides, stage, column, "step", quantity, first, second));
  }
  return found.filter(({ first, second }) => first !== second);
}

/**
 * GPU bytes of one state.
 * @param {Held[]} held
 * @param {string} state
 */
export function bytes_in(held, state) {
  return nbytes_of(held.filter((part) => part.state === state));
}

/**
 * One row, with what the words know about the part on either side.
 * @param {Readonly<Setup>[]} sides
 * @param {number} stage
 * @param {string} part
 * @param {"rest" | "peak" | "step"} when
 * @param {"bytes" | "elements" | "count" | "seconds"} quantity
 * @param {number} first
 * @param {number} second
 * @returns {Difference}
 */
export function line(sides, stage, part, when, quantity, first, second) {
  const { language } = sides[0];
  /** @type {string[]} */
  const told = [];
  sides.forEach((side, i) => {
    const key = origin(side, stage, part, when);
    if (key !== "" && ([first, second][i] > 0 || part === "master")) {
      const name = say(`system_${system_key(side, stage)}`, language);
      told.push(say("why_side", language, { system: name, why: say(key, language) }));
    }
  });
  return { part, when, quantity, first, second, why: told.join(language === "zh" ? "\uff1b" : "; ") };
}

/**
 * The key of the sentence that says where a part comes from, and its knob; "" where there is none.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 * @param {string} part
 * @param {string} when
 */
export function origin(setup, stage, part, when) {
  const system = system_key(setup, stage);
  for (const key of [`why_${part}_${when}_${system}`, `why_${part}_${system}`]) {
    if (has_word(key)) return key;
  }
  return "";
}
