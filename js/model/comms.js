// Collectives: what one rank sends, and how long a ring takes.
// Mirrors src/zerowidget/comms.py, where the sources are.

/** @typedef {import("./specs.js").Cluster} Cluster */

/** @type {Record<string, number>} Times a ring goes round; also how often the paper counts each element. */
export const ROUNDS = { all_gather: 1, reduce_scatter: 1, all_reduce: 2, broadcast: 1, reduce: 1 };

/**
 * Bytes that one rank sends for a collective on `nbytes` over `n` ranks.
 * @param {string} op
 * @param {number} nbytes
 * @param {number} n
 */
export function wire_bytes(op, nbytes, n) {
  return (ROUNDS[op] * nbytes * (n - 1)) / n;
}

/**
 * Time of one collective alone on its link, alpha-beta model.
 * @param {string} op
 * @param {number} nbytes
 * @param {Cluster} cluster
 */
export function seconds(op, nbytes, cluster) {
  if (op === "broadcast" || op === "reduce") {
    return (cluster.n - 1) * cluster.latency + nbytes / cluster.bandwidth;
  }
  return ROUNDS[op] * (cluster.n - 1) * (cluster.latency + nbytes / (cluster.n * cluster.bandwidth));
}
