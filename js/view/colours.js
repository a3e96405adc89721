// The colours of data/encoding.json as CSS variables: one colour, one thing, everywhere.

import ENCODING from "../../src/zerowidget/data/encoding.json" with { type: "json" };

/** @typedef {{light: string, dark: string}} Pair */

/** @param {string} colour #rrggbb */
function luminance(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Text on a colour: the better of near-black and white (WCAG contrast). @param {string} colour */
function ink(colour) {
  return (luminance(colour) + 0.05) ** 2 > 0.0625 * 1.05 ? "#16181c" : "#ffffff";
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
  const [r, g, b] = text.startsWith("color(")
    ? parts.slice(-3).map((part) => Number(part) * 255)
    : parts.map(Number);
  return 0.3 * r + 0.59 * g + 0.11 * b > 140;
}
