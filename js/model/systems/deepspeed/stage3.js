// DeepSpeed's stage 3: parameters are gathered module by module, gradients reduce-scattered in buckets.
// Mirrors src/zerowidget/systems/deepspeed/stage3.py, where the sources and what the times assume are.

import { elements_in, part_of } from "../../layout.js";
import { communicate, compute, during, finished, give, make_draft, take, update } from "./parts.js";
import { buckets_of, completes, moments_of, plan_of } from "./plan.js";

/** @typedef {import("../../program.js").Buffer} Buffer */
/** @typedef {import("../../specs.js").Setup} Setup */
/** @typedef {import("./coordinator.js").Gather} Gather */
/** @typedef {import("./coordinator.js").Moment} Moment */
/** @typedef {import("./parts.js").Draft} Draft */
/** @typedef {import("./plan.js").Plan} Plan */
/** @typedef {import("./trace.js").Node} Node */

/**
 * The bucket that is filling.
 * @typedef {object} Bucket
 * @property {number} number
 * @property {number} after index of the compute op of the last gradient in it
 * @property {Buffer[]} kept gradients that do not fit into the buffer
 */

/**
 * What is gathered in a micro-step, and which ops brought it.
 * @typedef {object} Gathered
 * @property {number[]} ops index of the op of each gather
 * @property {number[]} carriers per parameter, index of the op that brought it
 * @property {number} spanning gathers so far that bring parameters of several groups
 */

/**
 * One step of stage 3 in issue order.
 * @param {Readonly<Setup>} setup
 */
export function program3(setup) {
  return program_of(plan_of(setup));
}

/**
 * One step in issue order. Each module waits for its own parameters. Gradients are reduced when the next one would
 * overflow the bucket, and when a backward pass ends, which waits for it.
 * @param {Plan} plan
 */
export function program_of(plan) {
  const draft = make_draft();
  const labels = labels_of(plan);
  const buckets = buckets_of(plan);
  const alone = plan.cluster.n === 1;
  const numbers = plan.layout.parameters.map(() => 0); // of the bucket of each gradient
  for (const [number, members] of buckets.entries()) {
    for (const parameter of members) numbers[parameter] = number;
  }
  /** @type {Buffer[]} Second shards, until the optimizer step makes them stale. */
  const shards = [];
  for (const moments of moments_of(plan)) {
    /** @type {Bucket} */
    const bucket = { number: 0, after: -1, kept: [] };
    /** @type {Gathered} */
    const gathered = { ops: [], carriers: plan.layout.parameters.map(() => -1), spanning: 0 };
    /** @type {number[][]} */
    const waits = plan.nodes.map(() => []);
    for (const moment of moments) {
      const { visit } = moment;
      if (visit.kind === "compute") {
        const node = plan.nodes[visit.node];
        draft.waits.push(...waits[visit.node]);
        waits[visit.node] = [];
        if (!plan.overlap && draft.comm >= 0) draft.waits = [draft.comm]; // all on one stream
        if (visit.op === "backward") {
          write_backward(draft, plan, node, buckets, numbers, bucket);
        } else {
          compute(draft, visit.op, node.group, visit.phase, seconds_of(plan.forward, node), label_of(node));
        }
      } else if (!alone) {
        for (const request of moment.requests) {
          for (const gather of request.gathers) {
            write_gather(draft, plan, labels, visit.phase, gather, gathered);
          }
        }
        for (const number of moment.waits) waits[visit.node].push(gathered.ops[number]);
        free(draft, plan, moment, gathered, shards);
      }
    }
    flush(draft, plan, buckets, bucket);
    if (draft.comm >= 0) draft.waits = [draft.comm];
  }
  update(draft, plan.scalars, plan.step, plan.copies, plan.cluster);
  give(draft, shards);
  if (!alone) gather_persistent(draft, plan, labels);
  return finished(draft);
}

/**
 * Write an all-gather, issued when the module that asks could start.
 * @param {Draft} draft
 * @param {Plan} plan
 * @param {[string, string][]} labels
 * @param {string} phase
 * @param {Gather} gather
 * @param {Gathered} gathered
 */
export function write_gather(draft, plan, labels, phase, gather, gathered) {
  let elements = 0;
  let [group, module] = labels[gather.parameters[0]];
  for (const parameter of gather.parameters) {
    elements = elements + plan.padded[parameter];
    gathered.carriers[parameter] = draft.ops.length;
    if (labels[parameter][0] !== group || labels[parameter][1] !== module) module = "";
    if (labels[parameter][0] !== group) group = "";
  }
  if (group === "") {
    group = `bucket ${gathered.spanning}`;
    gathered.spanning += 1;
  }
  gathered.ops.push(draft.ops.length);
  const [dtype, each] = plan.gather;
  const cluster = gather.near ? plan.near : plan.cluster;
  communicate(draft, draft.compute, "all_gather", group, phase, elements, dtype, each, cluster, module);
}

/**
 * Free parameters when the compute so far ends, and keep a second shard of them with hpZ.
 * @param {Draft} draft
 * @param {Plan} plan
 * @param {Moment} moment
 * @param {Gathered} gathered
 * @param {Buffer[]} shards
 */
export function free(draft, plan, moment, gathered, shards) {
  const { frees } = moment;
  let place = 0;
  while (place < frees.length) {
    const carrier = gathered.carriers[frees[place]];
    let elements = 0;
    while (place < frees.length && gathered.carriers[frees[place]] === carrier) {
      elements = elements + plan.layout.parameters[frees[place]].elements;
      place += 1;
    }
    /** @type {Buffer} */
    const buffer = ["gathered", plan.param * elements];
    draft.takes[carrier].push(buffer);
    draft.gives[draft.compute].push(buffer);
  }
  if (moment.shards.length > 0) {
    let elements = 0;
    for (const parameter of moment.shards) elements = elements + plan.padded[parameter];
    /** @type {Buffer} */
    const shard = ["gathered", (plan.param * elements) / plan.near.n];
    draft.takes[draft.compute].push(shard);
    shards.push(shard);
  }
}

/**
 * Write the backward pass of a module, and put its gradients into the bucket. A full bucket waits for the last
 * gradient in it alone, so it goes before the module that overflows it.
 * @param {Draft} draft
 * @param {Plan} plan
 * @param {Node} node
 * @param {number[][]} buckets
 * @param {number[]} numbers
 * @param {Bucket} bucket
 */
export function write_backward(draft, plan, node, buckets, numbers, bucket) {
  const mine = completes(plan, node);
  if (plan.overlap && mine.length > 0 && numbers[mine[0]] > bucket.number) {
    flush(draft, plan, buckets, bucket);
  }
  let passing = 0;
  /** @type {Buffer[]} */
  const kept = [];
  for (const parameter of mine) {
    const { elements } = plan.layout.parameters[parameter];
    if (fits(plan, elements)) passing = passing + plan.param * elements;
    else kept.push(["buckets", plan.param * elements]);
  }
  compute(draft, "backward", node.group, "backward", seconds_of(plan.backward, node), label_of(node));
  take(draft, kept);
  if (passing > 0) during(draft, ["buckets", passing]);
  for (const parameter of mine) {
    if (numbers[parameter] > bucket.number) flush(draft, plan, buckets, bucket);
    bucket.after = draft.compute;
    const { elements } = plan.layout.parameters[parameter];
    if (!fits(plan, elements)) bucket.kept.push(["buckets", plan.param * elements]);
  }
}

/**
 * Whether a gradient goes into the bucket's buffer, or stays where autograd left it.
 * @param {Plan} plan
 * @param {number} elements
 */
export function fits(plan, elements) {
  return plan.contiguous && elements <= plan.bucket;
}

/**
 * Reduce-scatter what is in the bucket, which is laid out rank by rank first.
 * @param {Draft} draft
 * @param {Plan} plan
 * @param {number[][]} buckets
 * @param {Bucket} bucket
 */
export function flush(draft, plan, buckets, bucket) {
  const members = buckets[bucket.number];
  const whole = elements_in(plan.layout.parameters, members);
  let elements = 0;
  for (const parameter of members) elements = elements + plan.padded[parameter];
  if (plan.cluster.n > 1) {
    const after = plan.overlap ? bucket.after : draft.compute;
    const group = `bucket ${bucket.number}`;
    const [dtype, each] = plan.reduce;
    communicate(draft, after, "reduce_scatter", group, "backward", elements, dtype, each, plan.cluster, "");
    if (members.length > 1 || elements > whole) during(draft, ["buckets", plan.param * elements]);
  }
  give(draft, bucket.kept);
  bucket.number += 1;
  bucket.kept = [];
}

/**
 * Write the all-gathers of the small parameters that stay whole, one each.
 * @param {Draft} draft
 * @param {Plan} plan
 * @param {[string, string][]} labels
 */
export function gather_persistent(draft, plan, labels) {
  const { dtype, param, cluster } = plan;
  for (const [parameter, elements] of plan.padded.entries()) {
    if (plan.layout.parameters[parameter].elements > plan.limits.persistence) continue;
    const [group, module] = labels[parameter];
    communicate(draft, draft.compute, "all_gather", group, "step", elements, dtype, param, cluster, module);
  }
}

/**
 * Per parameter, the group and the module part that it is in.
 * @param {Plan} plan
 */
export function labels_of(plan) {
  /** @type {[string, string][]} */
  const labels = plan.layout.parameters.map(() => ["", ""]);
  for (const node of plan.nodes.slice().reverse()) {
    for (const parameter of node.parameters) labels[parameter] = [node.group, label_of(node)];
  }
  return labels;
}

/**
 * The part of the group that a node is, or "" when it is all of it.
 * @param {Node} node
 */
export function label_of(node) {
  if (node.group !== "root" && node.modules.length > 1) return "";
  return part_of(node.name);
}

/**
 * Seconds of what a node computes by itself.
 * @param {number[]} lengths
 * @param {Node} node
 */
export function seconds_of(lengths, node) {
  let length = 0;
  for (const number of node.modules) length = length + lengths[number];
  return length;
}
