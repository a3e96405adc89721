// The buckets of DeepSpeed's stages 1 and 2: how gradients fill them, and how they are reduced.
// Mirrors src/zerowidget/systems/deepspeed/buckets.py, where the sources are.

import { cluster_of } from "../../specs.js";
import { communicate, during, give, overlaps, padded, sizes_of, take } from "./parts.js";

/** @typedef {import("../../layout.js").Layout} Layout */
/** @typedef {import("../../program.js").Buffer} Buffer */
/** @typedef {import("../../specs.js").Cluster} Cluster */
/** @typedef {import("../../specs.js").Setup} Setup */
/** @typedef {import("./parts.js").Draft} Draft */
/** @typedef {import("./parts.js").Sizes} Sizes */

/** Past so many ranks the shares of neighbours are reduced as one, to keep the program readable. */
export const MOST_OWNERS = 1024;

/**
 * A reduction of a bucket, or of the part of it that one rank owns.
 * @typedef {object} Piece
 * @property {string} op
 * @property {number} elements
 * @property {boolean} copied whether DeepSpeed flattens several tensors into one first
 */

/**
 * The state of stages 1 and 2 while gradients come in.
 * @typedef {object} Reducer
 * @property {Readonly<Setup>} setup
 * @property {Layout} layout
 * @property {Sizes} sizes
 * @property {Cluster} cluster
 * @property {boolean} overlap
 * @property {number} each bytes per gradient in a bucket
 * @property {number[]} offsets where parameters begin in the flat buffer
 * @property {number} share elements of the flat buffer that one rank owns
 * @property {number[]} bucket
 * @property {number} elements in the bucket
 * @property {number} number of buckets reduced
 * @property {number} previous index of the reduction before
 * @property {Buffer[]} kept gradients that wait outside the buffer
 * @property {Buffer[]} first what the next reduction allocates
 */

/**
 * Buckets at stage 1 hold the accumulated gradient, at stage 2 the one of the micro-step.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 * @param {Layout} layout
 * @returns {Reducer}
 */
export function reducer_of(setup, stage, layout) {
  const sizes = sizes_of(setup, stage);
  /** @type {number[]} */
  const offsets = [];
  let place = 0;
  for (const parameter of layout.parameters) {
    offsets.push(place);
    place = place + parameter.elements;
  }
  const each = stage === 1 ? sizes.accumulated : sizes.param;
  const share = padded(setup) / Math.min(setup.n, MOST_OWNERS);
  return {
    setup,
    layout,
    sizes,
    cluster: cluster_of(setup),
    overlap: overlaps(setup, stage),
    each,
    offsets,
    share,
    bucket: [],
    elements: 0,
    number: 0,
    previous: -1,
    kept: [],
    first: [],
  };
}

/**
 * The bucket cut at the borders of shares: owner and elements, neighbours of one owner together.
 * @param {Reducer} reducer
 */
export function slices_of(reducer) {
  const exact = reducer.setup.shapes !== null && reducer.setup.n <= MOST_OWNERS;
  const slack = exact ? 0 : reducer.share * 1e-9; // what borders may be off by rounding
  const last = Math.min(reducer.setup.n, MOST_OWNERS) - 1;
  /** @type {[number, number][]} */
  const slices = [];
  for (const parameter of reducer.bucket) {
    let place = reducer.offsets[parameter];
    const end = place + reducer.layout.parameters[parameter].elements;
    let owner = Math.min(Math.floor((place + slack) / reducer.share), last);
    while (place < end) {
      const border = (owner + 1) * reducer.share;
      const until = owner === last || border >= end - slack ? end : border;
      if (slices.length > 0 && slices[slices.length - 1][0] === owner) {
        slices[slices.length - 1][1] = slices[slices.length - 1][1] + (until - place);
      } else {
        slices.push([owner, until - place]);
      }
      place = until;
      owner += 1;
    }
  }
  return slices;
}

/**
 * The reductions of a full bucket: one all-reduce for all owners, or with `use_multi_rank_bucket_allreduce` off one
 * reduce to each of them. A parameter larger than the bucket is cut where its slices exceed it.
 * @param {Reducer} reducer
 * @returns {Piece[]}
 */
export function pieces_of(reducer) {
  const { setup } = reducer;
  const most = setup.reduce_bucket_size;
  if (!setup.contiguous_gradients && setup.offload === "none") {
    return [{ op: "all_reduce", elements: reducer.elements, copied: reducer.bucket.length > 1 }];
  }
  const slices = slices_of(reducer);
  if (setup.use_multi_rank_bucket_allreduce && reducer.elements <= most) {
    return [{ op: "all_reduce", elements: reducer.elements, copied: slices.length > 1 }];
  }
  /** @type {number[][]} */
  const lists = [];
  /** @type {Map<number, number>} Of an owner's list. */
  const index = new Map();
  for (const [owner, elements] of slices) {
    const key = setup.use_multi_rank_bucket_allreduce ? 0 : owner;
    const known = index.get(key);
    if (known === undefined) {
      index.set(key, lists.length);
      lists.push([elements]);
    } else {
      lists[known].push(elements);
    }
  }
  const op = setup.use_multi_rank_bucket_allreduce ? "all_reduce" : "reduce";
  /** @type {Piece[]} */
  const pieces = [];
  for (const parts of lists) {
    pieces.push(...pieces_past(most, parts, op));
  }
  return pieces;
}

/**
 * Reductions that go on until they have more than `most` elements.
 * @param {number} most
 * @param {number[]} parts elements of what is reduced
 * @param {string} op
 */
export function pieces_past(most, parts, op) {
  /** @type {Piece[]} */
  const pieces = [];
  let sofar = 0;
  let count = 0;
  for (const elements of parts) {
    sofar = sofar + elements;
    count += 1;
    if (sofar > most) {
      pieces.push({ op, elements: sofar, copied: count > 1 });
      sofar = 0;
      count = 0;
    }
  }
  if (count > 0) pieces.push({ op, elements: sofar, copied: count > 1 });
  return pieces;
}

/**
 * Reduce what is in the bucket. Without `overlap_comm` on the stream of compute, which goes on after it. With it
 * beside compute, which waits for the reduction before, for there are two buffers.
 * @param {Draft} draft
 * @param {Reducer} reducer
 */
export function reduce_bucket(draft, reducer) {
  if (reducer.bucket.length === 0) return;
  if (reducer.cluster.n > 1) {
    const group = `bucket ${reducer.number}`;
    const { dtype, param } = reducer.sizes;
    for (const { op, elements, copied } of pieces_of(reducer)) {
      communicate(draft, draft.compute, op, group, "backward", elements, dtype, param, reducer.cluster, "");
      take(draft, reducer.first);
      reducer.first = [];
      if (copied) during(draft, ["buckets", reducer.each * elements]);
    }
    if (!reducer.overlap) {
      draft.waits = [draft.comm];
    } else if (reducer.previous >= 0) {
      draft.waits = [reducer.previous];
    }
    reducer.previous = draft.comm;
  }
  give(draft, reducer.kept);
  reducer.number += 1;
  reducer.bucket = [];
  reducer.elements = 0;
  reducer.kept = [];
}

/**
 * Whether a gradient does not fit beside those in the bucket.
 * @param {Reducer} reducer
 * @param {number} parameter
 */
export function overflows(reducer, parameter) {
  const elements = reducer.elements + reducer.layout.parameters[parameter].elements;
  return reducer.bucket.length > 0 && elements > reducer.setup.reduce_bucket_size;
}

/**
 * Put a gradient into the bucket; one larger than the bucket is reduced where it is.
 * @param {Reducer} reducer
 * @param {number} parameter
 */
export function put(reducer, parameter) {
  reducer.bucket.push(parameter);
  reducer.elements = reducer.elements + reducer.layout.parameters[parameter].elements;
}

/**
 * Whether a gradient waits for its reduction where autograd left it, not in the bucket's buffer.
 * @param {Reducer} reducer
 * @param {number} parameter
 */
export function outside(reducer, parameter) {
  const { setup } = reducer;
  const contiguous = setup.contiguous_gradients || setup.offload !== "none"; // offloading needs it
  return !contiguous || reducer.layout.parameters[parameter].elements > setup.reduce_bucket_size;
}

/**
 * The buffers of the bucket: one, or two with `overlap_comm`; none without contiguous gradients.
 * @param {Reducer} reducer
 * @returns {Buffer[]}
 */
export function buffers_of(reducer) {
  const { setup } = reducer;
  if (!setup.contiguous_gradients && setup.offload === "none") return [];
  return [["buckets", reducer.each * setup.reduce_bucket_size * (reducer.overlap ? 2 : 1)]];
}
