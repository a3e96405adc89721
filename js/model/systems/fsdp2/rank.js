// What one rank of `fully_shard` issues to its streams, and what each op waits for; torch 2.13.
// Mirrors src/zerowidget/systems/fsdp2/rank.py.

import { collective_op, make_op } from "../../program.js";

/** @typedef {import("../../program.js").Buffer} Buffer */
/** @typedef {import("../../program.js").Op} Op */
/** @typedef {import("../../specs.js").Cluster} Cluster */
/** @typedef {import("./groups.js").Costs} Costs */
/** @typedef {import("./groups.js").Group} Group */
/** @typedef {import("./groups.js").Mesh} Mesh */
/** @typedef {import("./groups.js").Use} Use */

/** @type {any[]} */
const NONE = [];

/**
 * One array after the other, without a copy where one is empty: none is ever written to.
 * @template T
 * @param {T[]} one
 * @param {T[]} other
 * @returns {T[]}
 */
function joined(one, other) {
  if (one.length === 0) return other;
  return other.length === 0 ? one : [...one, ...other];
}

/**
 * What a rank has issued so far, and what comes next on its streams waits for: an op that waits for the start of
 * a compute op waits for all that compute has come past by then.
 */
export class Rank {
  /**
   * @param {Mesh} mesh
   * @param {Group[]} groups
   * @param {Costs} costs
   * @param {boolean} separate
   */
  constructor(mesh, groups, costs, separate) {
    this.mesh = mesh;
    this.groups = groups;
    this.costs = costs;
    this.reductions = separate ? "reductions" : "comm";
    /** @type {Op[]} */
    this.ops = [];
    /** @type {number[]} The last compute op. */
    this.last = NONE;
    /** @type {number[]} What the next one waits for, on other streams. */
    this.waiting = NONE;
    /** @type {Buffer[]} What it takes beside its own. */
    this.taking = NONE;
    /** @type {number[]} What the next all-gather waits for. */
    this.gate = NONE;
    /** @type {number[] | null} What the one after that waits for, in the forward pass. */
    this.copied = null;
    /** @type {(number[] | null)[]} The all-gather under way. */
    this.gathers = groups.map(() => null);
    this.whole = groups.map(() => false);
    /** @type {number[][]} The compute before shards are kept apart. */
    this.kept = groups.map(() => NONE);
    /** @type {Buffer[][]} Gradients until they are reduced. */
    this.written = groups.map(() => NONE);
    /** @type {Buffer[][]} And those of earlier micro-steps. */
    this.unreduced = groups.map(() => NONE);
    /** @type {number[]} The last reduce-scatter of the micro-step. */
    this.reduced = NONE;
    /** @type {number[]} The last all-reduce of the micro-step. */
    this.replicated = NONE;
  }

  /**
   * The group when it is whole.
   * @param {number} group
   * @returns {Buffer}
   */
  gathered(group) {
    return ["gathered", this.mesh.param_bytes * this.groups[group].elements];
  }

  /**
   * The part of the group that is kept where it is sharded over fewer ranks after its forward pass.
   * @param {number} group
   * @returns {Buffer}
   */
  shard(group) {
    return ["gathered", (this.mesh.param_bytes * this.groups[group].elements) / this.mesh.regather.n];
  }

  /**
   * An op on the compute stream.
   * @param {string} op
   * @param {string} name
   * @param {string} phase
   * @param {number} seconds
   * @param {Buffer[]} [takes]
   */
  compute(op, name, phase, seconds, takes = NONE) {
    const all = joined(this.taking, takes);
    this.ops.push(make_op(op, name, phase, "compute", seconds, this.waiting, all));
    this.last = [this.ops.length - 1];
    this.waiting = NONE;
    this.taking = NONE;
  }

  /**
   * Free what the last compute op was the last to use.
   * @param {Buffer[]} buffers
   */
  release(buffers) {
    const op = this.ops[this.last[0]];
    op.gives = joined(op.gives, buffers);
  }

  /**
   * Issue the all-gather of a group that is neither whole nor on its way. Its buffer is there as soon as what it
   * waits for is over: it is filled from a stream of its own while the network may be busy yet.
   * @param {number} group
   * @param {string} phase
   */
  unshard(group, phase) {
    if (this.whole[group] || this.gathers[group] !== null) return;
    let ring = this.mesh.shard;
    let length = this.costs.gather[group];
    /** @type {Buffer[]} */
    let done = NONE;
    if (this.kept[group].length > 0) {
      ring = this.mesh.regather;
      length = this.costs.regather[group];
      done = [this.shard(group)];
    }
    this.gathers[group] = NONE;
    if (this.mesh.shard.n > 1) {
      const waits = joined(this.gate, this.kept[group]);
      this.gathers[group] = [this.ops.length];
      this.collective("all_gather", group, phase, "comm", length, waits, ring, done);
    }
    this.kept[group] = NONE;
  }

  /**
   * Compute waits for the all-gather of the group, and copies its buffer out; whether there was one. In the
   * forward pass the next but one all-gather waits for the copy, so that two buffers are in use; in the backward
   * pass the next one does.
   * @param {number} group
   * @param {string} phase
   */
  wait(group, phase) {
    const gather = this.gathers[group];
    if (gather === null) return false;
    this.gathers[group] = null;
    this.whole[group] = true;
    if (gather.length === 0) {
      this.taking = joined(this.taking, [this.gathered(group)]);
      return false;
    }
    this.waiting = joined(this.waiting, gather);
    if (phase === "backward") {
      this.gate = joined(this.last, this.waiting);
      return true;
    }
    if (this.copied !== null) this.gate = this.copied;
    this.copied = joined(this.last, this.waiting);
    return true;
  }

  /**
   * Free the group.
   * @param {number} group
   * @param {boolean} apart but for shards over fewer ranks, where it was asked for them
   */
  reshard(group, apart) {
    this.whole[group] = false;
    this.release([this.gathered(group)]);
    if (apart && this.mesh.regather.n < this.mesh.shard.n) {
      this.kept[group] = this.last;
      const op = this.ops[this.last[0]];
      op.takes = [...op.takes, this.shard(group)];
    }
  }

  /**
   * The backward pass of a use.
   * @param {Use} use
   * @param {number} seconds
   * @param {boolean} first the first of several whose gradients are summed whole
   */
  backward(use, seconds, first) {
    /** @type {Buffer[]} */
    const grads = [["buckets", this.mesh.param_bytes * use.gradients]];
    let takes = grads;
    if (first) {
      /** @type {Buffer[]} */
      const whole = [["whole_gradients", this.mesh.reduce_bytes * use.gradients]];
      this.unreduced[use.group] = joined(this.unreduced[use.group], whole);
      takes = joined(takes, whole);
    }
    this.compute("backward", this.groups[use.group].name, "backward", seconds, takes);
    this.written[use.group] = joined(this.written[use.group], grads);
  }

  /**
   * The end of the backward pass of a group.
   * @param {number} group
   * @param {boolean} reshards
   * @param {boolean} syncs its gradients are reduced now
   */
  finish(group, reshards, syncs) {
    this.release(this.written[group]);
    this.written[group] = NONE;
    if (reshards) this.reshard(group, false);
    if (syncs) this.reduce(group);
  }

  /**
   * Reduce the gradients of a group: reduce-scatter, then all-reduce of the shards among replicas. One
   * reduce-scatter's input is held at a time: compute waits until the one before is over.
   * @param {number} group
   */
  reduce(group) {
    this.waiting = joined(this.waiting, this.reduced);
    let waits = joined(this.last, this.waiting);
    const done = this.unreduced[group];
    if (this.mesh.shard.n > 1) {
      this.reduced = [this.ops.length];
      const length = this.costs.reduce[group];
      const stream = this.reductions;
      this.collective("reduce_scatter", group, "backward", stream, length, waits, this.mesh.shard, done);
      waits = this.reduced;
    } else if (done.length > 0) {
      this.release(done);
    }
    if (this.mesh.replicas.n > 1) {
      this.replicated = [this.ops.length];
      const length = this.costs.replicate[group];
      this.collective("all_reduce", group, "backward", "replicas", length, waits, this.mesh.replicas);
    }
  }

  /**
   * A collective on all of a group, or on one shard of it.
   * @param {string} op
   * @param {number} group
   * @param {string} phase
   * @param {string} stream
   * @param {number} seconds
   * @param {number[]} waits
   * @param {Cluster} ring
   * @param {Buffer[]} [done] what it frees beside its own
   */
  collective(op, group, phase, stream, seconds, waits, ring, done = NONE) {
    const { mesh } = this;
    let { elements } = this.groups[group];
    let dtype = mesh.reduce_dtype;
    let each = mesh.reduce_bytes;
    /** @type {Buffer[]} */
    let queues = NONE;
    let gives = done;
    if (op === "all_gather") {
      dtype = mesh.param_dtype;
      each = mesh.param_bytes;
      queues = [this.gathered(group)];
    } else if (op === "reduce_scatter") {
      queues = [["buckets", each * elements]];
      gives = joined(queues, done);
    } else {
      elements = elements / mesh.shard.n;
    }
    const { name } = this.groups[group];
    const nbytes = each * elements;
    this.ops.push(
      collective_op(
        op,
        name,
        phase,
        waits,
        elements,
        dtype,
        nbytes,
        ring,
        "",
        NONE,
        gives,
        queues,
        stream,
        seconds,
      ),
    );
  }
}
