// PyTorch's DistributedDataParallel (stage 0), and with it ZeroRedundancyOptimizer (stage 1), torch 2.13.
// Mirrors src/zerowidget/systems/fsdp2/ddp.py, where the sources are.

import { seconds } from "../../comms.js";
import { layout_of } from "../../layout.js";
import { make_held, make_op } from "../../program.js";
import { cluster_of } from "../../specs.js";
import { first_uses, parts_of, step_seconds, stored_of } from "./parts.js";

/** @typedef {import("../../layout.js").Layout} Layout */
/** @typedef {import("../../layout.js").Parameter} Parameter */
/** @typedef {import("../../program.js").Held} Held */
/** @typedef {import("../../program.js").Op} Op */
/** @typedef {import("../../specs.js").Cluster} Cluster */
/** @typedef {import("../../specs.js").Setup} Setup */
/** @typedef {import("./parts.js").Part} Part */
/** @typedef {import("./parts.js").Stored} Stored */

/**
 * What DistributedDataParallel takes and a setup does not say, named as there.
 * @typedef {object} Options
 * @property {number | null} bucket_cap_mb MiB; null: 1 for the first bucket, 25 for the others
 * @property {boolean} gradient_as_bucket_view
 */

/** @type {Options} */
export const DEFAULT = { bucket_cap_mb: null, gradient_as_bucket_view: false };

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
 * The parameters in the order in which the backward pass completes their gradients: modules in reverse; in a
 * module the biases before the matrix that they are added to, and the scale of a norm before its bias. What is
 * shared is complete after its last use.
 * @param {Layout} layout
 */
export function ready_order(layout) {
  const first = first_uses(layout);
  /** @type {number[]} */
  const order = [];
  for (let index = layout.modules.length - 1; index >= 0; index -= 1) {
    const mine = layout.modules[index].parameters.filter((parameter) => first[parameter] === index);
    order.push(...mine.filter((parameter) => layout.parameters[parameter].flat));
    order.push(...mine.filter((parameter) => !layout.parameters[parameter].flat));
  }
  return order;
}

/**
 * The buckets of the steady state: one is full as soon as it reaches its cap.
 * @param {Layout} layout
 * @param {Part[]} parts
 * @param {number} each bytes
 * @param {Options} options
 * @returns {Bucket[]}
 */
export function buckets_of(layout, parts, each, options) {
  const part_of = layout.modules.map(() => 0);
  for (let number = 0; number < parts.length; number += 1) {
    for (const index of parts[number].modules) part_of[index] = number;
  }
  const first = first_uses(layout);
  const given = options.bucket_cap_mb;
  let [cap, later] = given === null ? DEFAULT_CAPS : [given, given];
  /** @type {Bucket[]} */
  const buckets = [];
  /** @type {number[]} */
  let members = [];
  let elements = 0;
  const order = ready_order(layout);
  for (let count = 1; count <= order.length; count += 1) {
    const parameter = order[count - 1];
    members.push(parameter);
    elements = elements + layout.parameters[parameter].elements;
    if (elements * each >= cap * MIB || count === order.length) {
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
    let elements = 0;
    for (const index of members) elements = elements + parameters[index].elements;
    most = Math.max(most, elements);
  }
  return most;
}

/**
 * At rest, on the rank that holds most, in bytes: nothing is sharded but, at stage 1, the optimizer. The reducer
 * keeps buckets as large as all gradients beside them, unless gradients are views of these.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 * @param {Options} [options]
 * @returns {Held[]}
 */
export function hold(setup, stage, options = DEFAULT) {
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
  if (!options.gradient_as_bucket_view) held.push(make_held("buckets", "gpu", whole, stored.each));
  return held;
}

/**
 * One step in issue order. Buckets are reduced under the backward pass, whose end waits for all of them. With
 * accumulation the reduction waits for the last micro-step, unless every one has its own. At stage 1 every rank
 * broadcasts the parameters that it has updated, one by one.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 * @param {Options} [options]
 * @returns {Op[]}
 */
export function program(setup, stage, options = DEFAULT) {
  const layout = layout_of(setup);
  const stored = stored_of(setup);
  const cluster = cluster_of(setup);
  const parts = parts_of(layout);
  const buckets = buckets_of(layout, parts, stored.each, options);
  /** @type {number[][]} The buckets that a part completes. */
  const complete = parts.map(() => []);
  for (let number = 0; number < buckets.length; number += 1) complete[buckets[number].part].push(number);
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
      ops.push(
        make_op(
          "broadcast",
          module.group,
          "step",
          "comm",
          seconds("broadcast", nbytes, cluster),
          [optimizer],
          elements,
          stored.dtype,
          nbytes,
          undefined,
          undefined,
          undefined,
          cluster.n,
          cluster.leaves,
          module.name.slice(module.name.lastIndexOf(".") + 1),
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
  return make_op(
    "all_reduce",
    `bucket ${index}`,
    "backward",
    "comm",
    seconds("all_reduce", nbytes, cluster),
    [backward],
    elements,
    stored.dtype,
    nbytes,
    undefined,
    undefined,
    undefined,
    cluster.n,
    cluster.leaves,
  );
}
