// Where a quantity falls on the screen, and which round numbers mark an axis.

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
 * The index of the last of `spans` (in order of time) that starts at or before `time`; -1 if none does.
 * @param {{start: number}[]} spans
 * @param {number} time
 */
export function last_before(spans, time) {
  let low = -1;
  let high = spans.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (spans[middle].start <= time) low = middle;
    else high = middle;
  }
  return low;
}
