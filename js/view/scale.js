// Where a quantity falls on the screen, and which round numbers mark an axis.

/** Below this width, names lose their second line and words go under each other. */
export const NARROW = 560;

/** Width of the column with the names. @param {number} width */
export function gutter(width) {
  return width < NARROW ? 62 : 112;
}

/** Tenths of a pixel are enough. @param {number} x */
export function round(x) {
  return Math.round(x * 10) / 10;
}

/**
 * The first of 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10 times a power of ten that is not below `x`.
 * @param {number} x
 */
export function nice_above(x) {
  const power = 10 ** Math.floor(Math.log10(x));
  for (const step of [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8]) {
    if (step * power >= x) return step * power;
  }
  return 10 * power;
}

/**
 * Round numbers from `low` to `high`, at most `most` of them.
 * @param {number} low
 * @param {number} high
 * @param {number} most
 */
export function ticks(low, high, most) {
  const least = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= least) ?? least;
  const marks = [];
  for (let k = Math.ceil(low / step); k * step <= high * (1 + 1e-12); k += 1) marks.push(k * step);
  return marks;
}

/**
 * The place in `lane` (indices into `spans`, in order of time) of the last span that starts at or before
 * `time`; -1 if none does.
 * @param {{start: number}[]} spans
 * @param {number[]} lane
 * @param {number} time
 */
export function last_before(spans, lane, time) {
  let low = -1;
  let high = lane.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (spans[lane[middle]].start <= time) low = middle;
    else high = middle;
  }
  return low;
}
