// What every system writes: what it holds, the collectives of a step, and its program for the schedule.
// Mirrors src/zerowidget/program.py, where the states of buffers are explained.

import { seconds } from "./comms.js";

/** @typedef {[string, number]} Buffer What is held on top of rest for a while: its state, and bytes. */

/** The states of buffers, in drawing order. */
export const BUFFERS = ["gathered", "buckets", "whole_gradients", "copies"];

/**
 * Something that a rank holds at rest.
 * @typedef {object} Held
 * @property {string} state parameters, gradients, or a state of the optimizer; or one of BUFFERS
 * @property {string} device gpu, cpu, nvme
 * @property {number} nbytes
 * @property {number} each bytes per parameter of the whole; 0: no multiple of N
 * @property {number} over ranks that share the whole
 * @property {boolean} falls whether it shrinks as n grows
 */

/**
 * @param {string} state
 * @param {string} device
 * @param {number} nbytes
 * @param {number} [each]
 * @param {number} [over]
 * @param {boolean} [falls]
 * @returns {Held}
 */
export function make_held(state, device, nbytes, each = 0, over = 1, falls = false) {
  return { state, device, nbytes, each, over, falls };
}

/**
 * The collectives of one kind in a step: all `count` of them together.
 * @typedef {object} Collective
 * @property {string} phase
 * @property {string} op
 * @property {string} dtype
 * @property {number} count
 * @property {number} elements of the full tensors
 * @property {number} nbytes of the full tensors
 * @property {number} seconds one after the other
 * @property {number} ranks that take part in one
 * @property {boolean} leaves whether its ring leaves a node
 */

/**
 * An operation in issue order. Ops of one `stream` run one after the other, in that order.
 * @typedef {object} Op
 * @property {string} op forward, recompute, backward, optimizer, or a collective's name
 * @property {string} group "layer 0" .., "root", "bucket 0" .., or "" when it concerns all
 * @property {string} phase forward, backward, step
 * @property {string} stream compute, comm, replicas
 * @property {number} seconds
 * @property {number[]} waits_for indices of ops that must end first, beside the one before it on the stream
 * @property {number} elements of the full tensor
 * @property {string} dtype
 * @property {number} nbytes of the full tensor
 * @property {Buffer[]} takes allocated when it starts
 * @property {Buffer[]} gives freed when it ends
 * @property {Buffer[]} queues allocated when all it waits for has ended: its stream may be busy yet
 * @property {number} ranks that take part in a collective
 * @property {boolean} leaves whether its ring leaves a node
 * @property {string} module the part of the group, where a system works on parts
 */

/** @type {any[]} */
const NOTHING = [];

/**
 * A collective among the ranks of `cluster`. `length`: its seconds, if they are not those of the cluster.
 * @param {string} op
 * @param {string} group
 * @param {string} phase
 * @param {number[]} waits
 * @param {number} elements
 * @param {string} dtype
 * @param {number} nbytes
 * @param {import("./specs.js").Cluster} cluster
 * @param {string} [module]
 * @param {Buffer[]} [takes]
 * @param {Buffer[]} [gives]
 * @param {Buffer[]} [queues]
 * @param {string} [stream]
 * @param {number} [length]
 * @returns {Op}
 */
export function collective_op(
  op,
  group,
  phase,
  waits,
  elements,
  dtype,
  nbytes,
  cluster,
  module = "",
  takes = NOTHING,
  gives = NOTHING,
  queues = NOTHING,
  stream = "comm",
  length,
) {
  return {
    op,
    group,
    phase,
    stream,
    seconds: length ?? seconds(op, nbytes, cluster),
    waits_for: waits,
    elements,
    dtype,
    nbytes,
    takes,
    gives,
    queues,
    ranks: cluster.n,
    leaves: cluster.leaves,
    module,
  };
}

/** No ring: what computes. */
const ALONE = /** @type {import("./specs.js").Cluster} */ ({ n: 0, leaves: false });

/**
 * @param {string} op
 * @param {string} group
 * @param {string} phase
 * @param {string} stream
 * @param {number} length seconds
 * @param {number[]} [waits]
 * @param {Buffer[]} [takes]
 * @param {Buffer[]} [gives]
 * @param {string} [module]
 */
export function make_op(op, group, phase, stream, length, waits = NOTHING, takes, gives, module) {
  return collective_op(
    op,
    group,
    phase,
    waits,
    0,
    "",
    0,
    ALONE,
    module,
    takes,
    gives,
    NOTHING,
    stream,
    length,
  );
}

/**
 * The collectives of a program, those of one phase, op, type and set of ranks together.
 * @param {Op[]} ops
 * @returns {Collective[]}
 */
export function collected(ops) {
  /** @type {Map<string, Collective>} */
  const kinds = new Map();
  for (const { op, phase, stream, seconds, elements, dtype, nbytes, ranks, leaves } of ops) {
    if (stream === "compute") continue;
    const key = `${phase} ${op} ${dtype} ${ranks} ${leaves}`;
    const sofar = kinds.get(key);
    if (sofar === undefined) {
      kinds.set(key, { phase, op, dtype, count: 1, elements, nbytes, seconds, ranks, leaves });
    } else {
      sofar.count += 1;
      sofar.elements = sofar.elements + elements;
      sofar.nbytes = sofar.nbytes + nbytes;
      sofar.seconds = sofar.seconds + seconds;
    }
  }
  return [...kinds.values()];
}
