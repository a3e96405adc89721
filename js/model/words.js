// What a user reads: sentences by key and language, and numbers with their unit.
// Mirrors src/zerowidget/words.py. Every rounding is half away from zero on the exact value, as toFixed does it.

import words from "../../src/zerowidget/data/words.json" with { type: "json" };

/** @type {Record<string, Record<string, string>>} */
export const WORDS = words;
/** @type {Record<string, number>} */
export const KILO = { GiB: 1024, GB: 1000 };
/** @type {Record<string, string[]>} */
export const BYTES = {
  GiB: ["B", "KiB", "MiB", "GiB", "TiB", "PiB"],
  GB: ["B", "kB", "MB", "GB", "TB", "PB"],
};

/** @type {[string, number][]} */
const COUNTS = [
  ["T", 1e12],
  ["B", 1e9],
  ["M", 1e6],
  ["K", 1e3],
];

/**
 * The sentence `key` in `language`, with `{name}` replaced by `values`; the key itself where the bundle has none.
 * @param {string} key
 * @param {string} language
 * @param {Record<string, string | number>} [values]
 */
export function say(key, language, values = {}) {
  let text = WORDS[key]?.[language] ?? key;
  for (const [name, value] of Object.entries(values))
    text = text.replaceAll(`{${name}}`, () => String(value));
  return text;
}

/**
 * Whether there is a sentence `key`.
 * @param {string} key
 */
export function has_word(key) {
  return Object.hasOwn(WORDS, key);
}

/**
 * What a field is called; a knob of a real system is called what that system calls it.
 * @param {string} name
 * @param {string} language
 */
export function field_name(name, language) {
  const key = name === "recompute" ? "recompute_field" : name;
  return has_word(key) ? say(key, language) : name;
}

/**
 * `x` with that many decimals: fixed(41.25, 1) is "41.3".
 * @param {number} x
 * @param {number} digits
 */
export function fixed(x, digits) {
  return x.toFixed(digits);
}

/**
 * Scientific notation, trailing zeros dropped: exponential(7.5e9, 3) is "7.5e9".
 * @param {number} x
 * @param {number} digits
 */
export function exponential(x, digits) {
  if (x === 0) return "0";
  const [mantissa, power] = x.toExponential(digits).split("e");
  return `${without_zeros(mantissa)}e${Number(power)}`;
}

/**
 * Shortest exact text, as Python writes it: plain(12) is "12", plain(2.03125) is "2.03125".
 * @param {number} x
 */
export function plain(x) {
  if (Number.isInteger(x)) return BigInt(x).toString();
  if (Math.abs(x) >= 1e-4) return String(x);
  return x.toExponential().replace(/e-(\d)$/, "e-0$1"); // Python's exponents have two digits
}

/**
 * `fixed` without trailing zeros: trimmed(1.5, 2) is "1.5", trimmed(1, 2) is "1".
 * @param {number} x
 * @param {number} digits
 */
export function trimmed(x, digits) {
  return without_zeros(fixed(x, digits));
}

/** @param {string} text */
function without_zeros(text) {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/**
 * Three figures, as a label wants them: 131, 14.2, 1.75.
 * @param {number} x
 */
export function significant(x) {
  return fixed(x, x >= 99.95 ? 0 : x >= 9.995 ? 1 : 2);
}

/**
 * A figure beside a bar, in one unit for all bars: 111.8, 1.7, 0.36, 0.004, 2.5e-7.
 * @param {number} x
 */
export function amount(x) {
  if (x < 0.0005 || x >= 99999.5) return exponential(x, 1);
  return fixed(x, x >= 999.95 ? 0 : x >= 0.995 ? 1 : x >= 0.0995 ? 2 : 3);
}

/**
 * Bytes as GiB (2^30) or GB (10^9).
 * @param {number} nbytes
 * @param {string} unit
 */
export function in_unit(nbytes, unit) {
  const kilo = KILO[unit];
  return nbytes / (kilo * kilo * kilo);
}

/**
 * Bytes in the unit asked for: size(1.2e11, "GiB") is "111.8 GiB".
 * @param {number} nbytes
 * @param {string} unit
 */
export function size(nbytes, unit) {
  const value = in_unit(nbytes, unit);
  return value >= 0.0005 && value < 99999.5 ? `${amount(value)} ${unit}` : scaled_size(nbytes, unit);
}

/**
 * Bytes under the prefix that suits them, in the family of `unit`: "447 MiB".
 * @param {number} nbytes
 * @param {string} unit
 */
export function scaled_size(nbytes, unit) {
  let power = 0;
  let value = nbytes;
  while (value >= 0.9995 * KILO[unit] && power < 5) {
    value = value / KILO[unit];
    power += 1;
  }
  return `${power === 0 ? fixed(value, 0) : significant(value)} ${BYTES[unit][power]}`;
}

/**
 * Seconds as "1.02 s", "9.62 ms" or "41.0 µs".
 * @param {number} seconds
 */
export function duration(seconds) {
  if (seconds >= 0.9995) return `${significant(seconds)} s`;
  if (seconds >= 0.9995e-3) return `${significant(seconds * 1e3)} ms`;
  return `${significant(seconds * 1e6)} µs`;
}

/**
 * A count in short scale, three figures: count(7.5e9) is "7.5B".
 * @param {number} x
 */
export function count(x) {
  for (const [suffix, scale] of COUNTS) {
    if (x >= 0.9995 * scale) {
      const value = x / scale;
      return trimmed(value, value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2) + suffix;
    }
  }
  return trimmed(x, 0);
}
