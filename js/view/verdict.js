// The answer in words, and the numbers as a table for those who do not see the picture.

import { duration, say, size, trimmed } from "../model/words.js";
import { fill, html, on, write } from "./dom.js";

/** @typedef {import("./explorer.js").Frame} Frame */

/** The sentence that comes first, with its line of costs. */
export function make_headline() {
  const headline = html("h3");
  const costs = html("p", { class: "costs" });
  return {
    element: html("div", { class: "headline" }, headline, costs),
    /** @param {Frame} frame */
    update({ said }) {
      write(headline, said.headline);
      write(costs, said.costs);
    },
  };
}

/** Why the number is what it is, what the stage moves, whether it fits. */
export function make_verdict() {
  const parts = /** @type {const} */ ([
    ["why", "formula"],
    ["moves", "moves"],
    ["fits", "fits"],
  ]).map(([label, key]) => ({ label, key, term: html("dt"), text: html("dd", { class: key }) }));
  return {
    element: html("dl", { class: "verdict" }, ...parts.flatMap(({ term, text }) => [term, text])),
    /** @param {Frame} frame */
    update({ said, setup }) {
      for (const { label, key, term, text } of parts) {
        write(term, say(label, setup.language));
        write(text, said[key]);
      }
    },
  };
}

/** @param {() => void} render */
export function make_table(render) {
  const summary = html("summary");
  const table = html("table");
  const details = html("details", {}, summary, html("div", { class: "scroll" }, table));
  on(details, "toggle", render);
  return {
    element: details,
    /** @param {Frame} frame */
    update({ rows, setup }) {
      const { language, unit } = setup;
      write(summary, say("table", language));
      if (!details.open) return;
      const heads = [
        "stage",
        "table_rest",
        "table_peak",
        "table_wire",
        "table_step",
        "table_exposed",
        "fits",
      ];
      const cells = rows.map((row) => {
        const relative = row.relative === null ? "" : ` (${trimmed(row.relative, 2)}×)`;
        return [
          say("stage_name", language, { stage: row.stage }),
          size(row.rest, unit),
          size(row.peak, unit),
          size(row.wire_bytes, unit) + relative,
          duration(row.step),
          duration(row.exposed),
          say(row.fits_peak ? "table_fits" : "table_fits_not", language),
        ];
      });
      fill(
        table,
        heads.map((key) => say(key, language)),
        cells,
      );
    },
  };
}
