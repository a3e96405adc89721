// The colours of data/encoding.json as CSS variables: one colour, one thing, everywhere.

import ENCODING from "../../src/zerowidget/data/encoding.json" with { type: "json" };

/** @typedef {{light: string, dark: string}} Pair */

/** How bright a colour looks, from 0 to 255. @param {number[]} rgb */
function brightness([r, g, b]) {
  return 0.3 * r + 0.59 * g + 0.11 * b;
}

/**
 * Text on a colour #rrggbb: near-black or white. For the colours there are this is the one that WCAG's contrast
 * prefers; a test keeps it so.
 * @param {string} colour
 */
export function ink(colour) {
  const rgb = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
  return brightness(rgb) > 123 ? "#16181c" : "#ffffff";
}

/** @param {"light" | "dark"} theme */
function variables(theme) {
  const lines = [`--limit: ${ENCODING.limit[theme]};`];
  const named = /** @type {[string, Pair][]} */ ([
    ...Object.entries(ENCODING.states),
    ...Object.entries(ENCODING.ops),
  ]);
  for (const [name, colour] of named) {
    lines.push(`--${name}: ${colour[theme]};`, `--on-${name}: ${ink(colour[theme])};`);
  }
  return lines.join(" ");
}

/** The style rules that name every colour, light and dark. */
export const COLOURS = `.zw { ${variables("light")} } .zw.dark { ${variables("dark")} }
@media print { .zw.dark { ${variables("light")} } }`;

/** Whether text of this colour stands on a dark ground. @param {string} text as getComputedStyle gives it */
export function is_dark(text) {
  const parts = text.match(/[\d.]+/g);
  if (!parts || parts.length < 3) return false;
  const rgb = text.startsWith("color(")
    ? parts.slice(-3).map((part) => Number(part) * 255)
    : parts.map(Number);
  return brightness(rgb) > 140;
}
