// Two systems against each other at the selected stage: what differs, and where it comes from.

import { compared } from "../model/compare.js";
import { count, duration, say, scaled_size } from "../model/words.js";
import { system_name } from "./bars.js";
import { fill, html, write } from "./dom.js";

/** @typedef {import("./explorer.js").Frame} Frame */
/** @typedef {import("../model/compare.js").Difference} Difference */

export function make_differences() {
  const title = html("h4");
  const note = html("span", { class: "note" });
  const table = html("table");
  const element = html(
    "section",
    { class: "differences" },
    html("header", {}, title, note),
    html("div", { class: "scroll" }, table),
  );
  return {
    element,
    /** @param {Frame} frame */
    update({ setup, sides }) {
      const { language, stage } = setup;
      const names = sides.map((side) => system_name(side.setup, stage));
      write(title, say("differs", language));
      write(note, `${say("stage_name", language, { stage })} \u00b7 ${names.join(" / ")}`);
      const rows = compared(
        sides.map((side) => side.setup),
        sides.map((side) => side.steps),
        sides.map((side) => side.rows),
      );
      const heads = ["", ...names, say("differs_why", language)];
      const cells = rows.map((row) => [
        part_name(row, language),
        amount_of(row.quantity, row.first, setup),
        amount_of(row.quantity, row.second, setup),
        row.why,
      ]);
      const classes = rows.map((row) => row.part === row.when && "sum");
      fill(table, heads, cells, classes);
    },
  };
}

/** @param {Difference} row @param {string} language */
function part_name({ part, when }, language) {
  if (part === when || when === "step") return say(`table_${part}`, language);
  const state = say(part, language);
  return when === "peak" ? say("differs_on_top", language, { state }) : state;
}

/** @param {string} quantity @param {number} value @param {import("../model/specs.js").Setup} setup */
function amount_of(quantity, value, { unit }) {
  if (quantity === "bytes") return value > 0 ? scaled_size(value, unit) : "\u2013";
  if (quantity === "seconds") return duration(value);
  return quantity === "count" ? String(value) : count(value);
}
