// PyTorch's DistributedDataParallel (stage 0), and with it ZeroRedundancyOptimizer (stage 1), torch 2.13.
// Mirrors src/zerowidget/systems/fsdp2/ddp.py, where the sources are.

import { elements_in, first_uses, layout_of, part_of, ready_order } from "../../layout.js";
import { collective_op, make_held, make_op } from "../../program.js";
import { cluster_of } from "../../specs.js";
import { parts_of, step_seconds, stored_of } from "./parts.js";

/** @typedef {import("../../layout.js").Layout} Layout */
/** @typedef {import("../../layout.js").Parameter} Parameter */
/** @typedef {import("../../program.js").Held} Held */
/** @typedef {import("../../program.js").Op} Op */
/** @typedef {import("../../specs.js").Cluster} Cluster */
/** @typedef {import("../../specs.js").Setup} Setup */
/** @typedef {import("./parts.js").Part} Part */
/** @typedef {import("./parts.js").Stored} Stored */

export const MIB = 1048576;
/** @type {[number, number]} MiB of the first bucket, and of the others. */
export const DEFAULT_CAPS = [1, 25];

/**
 * Gradients that are reduced together.
 * @typedef {object} Bucket
 * @property {number[]} parameters in the order in which their gradients are ready
 * @property {number} elements
 * @property {number} part the part whose backward pass completes it
 */

/**
 * The buckets of the steady state: one is full as soon as it reaches its cap. `caps`: bucket_cap_mb.
 * @param {Layout} layout
 * @param {Part[]} parts
 * @param {number} each bytes
 * @param {[number, number]} caps
 * @returns {Bucket[]}
 */
export function buckets_of(layout, parts, each, caps) {
  const part_of = layout.modules.map(() => 0);
  for (const [number, part] of parts.entries()) {
    for (const index of part.modules) part_of[index] = number;
  }
  const first = first_uses(layout);
  let [cap, later] = caps;
  /** @type {Bucket[]} */
  const buckets = [];
  /** @type {number[]} */
  let members = [];
  let elements = 0;
  const order = ready_order(layout).reverse().flat();
  for (const [place, parameter] of order.entries()) {
    members.push(parameter);
    elements = elements + layout.parameters[parameter].elements;
    if (elements * each >= cap * MIB || place + 1 === order.length) {
      buckets.push({ parameters: members, elements, part: part_of[first[parameter]] });
      members = [];
      elements = 0;
      cap = later;
    }
  }
  return buckets;
}

/**
 * The parameters that each rank updates under ZeroRedundancyOptimizer: whole ones, the largest first, each to the
 * rank that has the fewest elements yet, the lowest such rank. Ranks that would get none are left out.
 * @param {Parameter[]} parameters
 * @param {number} n
 * @returns {number[][]}
 */
export function owned_by_rank(parameters, n) {
  const order = parameters.map((_, index) => index);
  order.sort((one, other) => parameters[other].elements - parameters[one].elements);
  const ranks = Math.min(n, parameters.length);
  /** @type {number[][]} */
  const owned = Array.from({ length: ranks }, () => []);
  const load = Array.from({ length: ranks }, () => 0);
  for (const index of order) {
    let rank = 0;
    for (let other = 1; other < ranks; other += 1) if (load[other] < load[rank]) rank = other;
    owned[rank].push(index);
    load[rank] = load[rank] + parameters[index].elements;
  }
  return owned;
}

/**
 * The elements of the rank that updates most.
 * @param {Parameter[]} parameters
 * @param {number[][]} owned
 */
export function heaviest(parameters, owned) {
  let most = 0;
  for (const members of owned) {
    most = Math.max(most, elements_in(parameters, members));
  }
  return most;
}

/**
 * At rest, on the rank that holds most, in bytes: nothing is sharded but, at stage 1, the optimizer. The reducer
 * keeps buckets as large as all gradients beside them, unless gradients are `views` of these: gradient_as_bucket_view.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 * @param {boolean} [views]
 * @returns {Held[]}
 */
export function hold(setup, stage, views = false) {
  const stored = stored_of(setup);
  const whole = stored.each * setup.N;
  const held = ["parameters", "gradients"].map((state) => make_held(state, "gpu", whole, stored.each));
  let mine = setup.N;
  let over = 1;
  if (stage === 1 && setup.n > 1) {
    const { parameters } = layout_of(setup);
    mine = heaviest(parameters, owned_by_rank(parameters, setup.n));
    over = setup.n;
  }
  for (const [state, each] of stored.states) {
    held.push(make_held(state, "gpu", each * mine, each, over, stage === 1));
  }
  if (!views) held.push(make_held("buckets", "gpu", whole, stored.each));
  return held;
}

/**
 * One step in issue order. Buckets are reduced under the backward pass, whose end waits for all of them. With
 * accumulation the reduction waits for the last micro-step, unless every one has its own. At stage 1 every rank
 * broadcasts the parameters that it has updated, one by one.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 * @param {[number, number]} [caps]
 * @returns {Op[]}
 */
export function program(setup, stage, caps = DEFAULT_CAPS) {
  const layout = layout_of(setup);
  const stored = stored_of(setup);
  const cluster = cluster_of(setup);
  const parts = parts_of(layout);
  const buckets = buckets_of(layout, parts, stored.each, caps);
  /** @type {number[][]} The buckets that a part completes. */
  const complete = parts.map(() => []);
  for (const [number, bucket] of buckets.entries()) complete[bucket.part].push(number);
  /** @type {Op[]} */
  const ops = [];
  /** @type {number[]} The last reduction of the micro-step before. */
  let reduced = [];
  for (let micro_step = 1; micro_step <= setup.accumulation; micro_step += 1) {
    const reduces = setup.n > 1 && (setup.sync_every_micro_batch || micro_step === setup.accumulation);
    for (const part of parts) {
      ops.push(make_op("forward", part.group, "forward", "compute", part.flops / cluster.flops, reduced));
      reduced = [];
    }
    for (let number = parts.length - 1; number >= 0; number -= 1) {
      const part = parts[number];
      if (setup.recompute && part.layer) {
        ops.push(make_op("recompute", part.group, "backward", "compute", part.flops / cluster.flops));
      }
      const length = (2 * part.flops) / cluster.flops;
      const backward = ops.length;
      ops.push(make_op("backward", part.group, "backward", "compute", length));
      if (reduces) {
        for (const index of complete[number]) {
          reduced = [ops.length];
          ops.push(reduce_op(buckets[index].elements, index, backward, stored, cluster));
        }
      }
    }
  }
  /** @type {number[][]} */
  let owned = [];
  let mine = setup.N;
  if (stage === 1 && setup.n > 1) {
    owned = owned_by_rank(layout.parameters, setup.n);
    mine = heaviest(layout.parameters, owned);
  }
  ops.push(make_op("optimizer", "", "step", "compute", step_seconds(setup, mine), reduced));
  const optimizer = ops.length - 1;
  const first = first_uses(layout);
  for (const members of owned) {
    for (const parameter of members) {
      const module = layout.modules[first[parameter]];
      const { elements } = layout.parameters[parameter];
      const nbytes = stored.each * elements;
      const name = part_of(module.name);
      const waits = [optimizer];
      ops.push(
        collective_op(
          "broadcast",
          module.group,
          "step",
          waits,
          elements,
          stored.dtype,
          nbytes,
          cluster,
          name,
        ),
      );
    }
  }
  return ops;
}

/**
 * The all-reduce of a bucket, once the op `backward` has completed it.
 * @param {number} elements
 * @param {number} index
 * @param {number} backward
 * @param {Stored} stored
 * @param {Cluster} cluster
 */
export function reduce_op(elements, index, backward, stored, cluster) {
  const nbytes = stored.each * elements;
  const group = `bucket ${index}`;
  return collective_op("all_reduce", group, "backward", [backward], elements, stored.dtype, nbytes, cluster);
}
