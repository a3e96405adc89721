// One line of a step's program: what every system writes and the schedule reads.
// Mirrors src/zerowidget/program.py.

/** @typedef {["gathered" | "buckets", number]} Buffer What is held on top of rest for a while, and its bytes. */

/**
 * An operation in issue order. Ops of one `stream` run one after the other, in that order.
 * @typedef {object} Op
 * @property {string} op forward, recompute, backward, optimizer, or a collective's name
 * @property {string} group "layer 0" .., or "" when it concerns all
 * @property {string} phase forward, backward, step
 * @property {string} stream compute, comm
 * @property {number} seconds
 * @property {number[]} waits_for indices of ops that must end first, beside the one before it on the stream
 * @property {number} elements of the full tensor
 * @property {string} dtype
 * @property {number} nbytes of the full tensor
 * @property {Buffer | null} takes allocated when it starts
 * @property {Buffer | null} gives freed when it ends
 */

/** @type {number[]} */
const NOTHING = [];

/**
 * @param {string} op
 * @param {string} group
 * @param {string} phase
 * @param {string} stream
 * @param {number} seconds
 * @param {number[]} [waits_for]
 * @param {number} [elements]
 * @param {string} [dtype]
 * @param {number} [nbytes]
 * @param {Buffer | null} [takes]
 * @param {Buffer | null} [gives]
 * @returns {Op}
 */
export function make_op(
  op,
  group,
  phase,
  stream,
  seconds,
  waits_for = NOTHING,
  elements = 0,
  dtype = "",
  nbytes = 0,
  takes = null,
  gives = null,
) {
  return { op, group, phase, stream, seconds, waits_for, elements, dtype, nbytes, takes, gives };
}
