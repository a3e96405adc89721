// PyTorch: FSDP2's `fully_shard` at stages 2 and 3, DistributedDataParallel at 0 and 1; torch 2.13.
// Mirrors src/zerowidget/systems/fsdp2/__init__.py, where what is recorded is told.

import { layout_of } from "../../layout.js";
import { make_held } from "../../program.js";
import * as ddp from "./ddp.js";
import { costs_of, DEFAULT, groups_of, mesh_of } from "./groups.js";
import { parts_of, stored_of } from "./parts.js";
import { Rank } from "./rank.js";

/** @typedef {import("../../program.js").Buffer} Buffer */
/** @typedef {import("../../program.js").Held} Held */
/** @typedef {import("../../program.js").Op} Op */
/** @typedef {import("../../specs.js").Setup} Setup */
/** @typedef {import("./groups.js").Costs} Costs */
/** @typedef {import("./groups.js").Group} Group */
/** @typedef {import("./groups.js").Mesh} Mesh */
/** @typedef {import("./groups.js").Options} Options */
/** @typedef {import("./groups.js").Use} Use */

/**
 * At rest, on rank 0, in bytes: an even share, but for the padding of each parameter's dimension 0. There is no
 * copy in the type of compute; the sharded parameters are the master. The gradients are those of all groups,
 * after the backward pass.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 * @returns {Held[]}
 */
export function hold(setup, stage) {
  if (stage < 2) return ddp.hold(setup, stage);
  const stored = stored_of(setup);
  const ranks = mesh_of(setup).shard.n;
  let elements = setup.N;
  if (setup.shapes !== null) {
    elements = 0;
    const layout = layout_of(setup);
    for (const group of groups_of(setup, stage, layout, parts_of(layout))[0]) {
      elements = elements + group.elements;
    }
  }
  const falls = ranks === setup.n;
  /** @type {[string, number][]} */
  const states = [["parameters", stored.each], ["gradients", stored.each], ...stored.states];
  return states.map(([state, each]) =>
    make_held(state, "gpu", (each * elements) / ranks, each, ranks, falls),
  );
}

/**
 * One step in issue order. `prefetch`: up to 1 is what fully_shard does by itself; more is asked of it for all
 * layers.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 * @returns {Op[]}
 */
export function program(setup, stage) {
  if (stage < 2) return ddp.program(setup, stage);
  const ahead = setup.prefetch > 1 ? setup.prefetch : 0;
  return sharded(setup, stage, { ...DEFAULT, forward_prefetch: ahead, backward_prefetch: ahead });
}

/**
 * One step in issue order at stage 2 or 3.
 * @param {Readonly<Setup>} setup
 * @param {number} stage
 * @param {Options} options
 */
export function sharded(setup, stage, options) {
  const layout = layout_of(setup);
  const [groups, uses] = groups_of(setup, stage, layout, parts_of(layout));
  const mesh = mesh_of(setup);
  return training_step(setup, options, mesh, groups, uses, costs_of(setup, mesh, groups, uses));
}

/**
 * One step in issue order, of these costs. Forward, a group is gathered when its turn comes: what overlaps is what
 * the host issues ahead of the device. Backward, each group gathers the one before it. Gradients are reduced in
 * every micro-step, or kept whole until the last.
 * @param {Readonly<Setup>} setup
 * @param {Options} options
 * @param {Mesh} mesh
 * @param {Group[]} groups
 * @param {Use[]} uses
 * @param {Costs} costs
 */
export function training_step(setup, options, mesh, groups, uses, costs) {
  const rank = new Rank(mesh, groups, costs, options.separate_reduce_scatter_group);
  const root = groups.findIndex((group) => group.name === "root");
  for (let micro_step = 1; micro_step <= setup.accumulation; micro_step += 1) {
    rank.gate = [...rank.last, ...rank.waiting];
    forward_pass(rank, options, root, uses);
    backward_pass(rank, setup, options, root, uses, micro_step);
  }
  rank.compute("optimizer", "", "step", costs.optimizer);
  return rank.ops;
}

/**
 * The root is gathered first, and shards again last.
 * @param {Rank} rank
 * @param {Options} options
 * @param {number} root
 * @param {Use[]} uses
 */
export function forward_pass(rank, options, root, uses) {
  let before = -1; // the last two groups gathered, and the first compute of the second
  let latest = -1;
  let opened = -1;
  if (root >= 0) {
    rank.unshard(root, "forward");
    latest = rank.wait(root, "forward") ? root : -1;
  }
  for (const [index, { group, layer }] of uses.entries()) {
    if (group !== root) {
      rank.unshard(group, "forward");
      if (rank.wait(group, "forward")) {
        before = latest;
        latest = group;
        opened = -1;
      }
      if (layer >= 0) {
        const end = Math.min(uses.length, index + 1 + options.forward_prefetch);
        for (let ahead = index + 1; ahead < end; ahead += 1) {
          if (uses[ahead].layer >= 0) rank.unshard(uses[ahead].group, "forward");
        }
      }
    }
    rank.compute("forward", rank.groups[group].name, "forward", rank.costs.forward[index]);
    opened = opened < 0 ? rank.last[0] : opened;
    if (group !== root && rank.groups[group].reshards) rank.reshard(group, true);
  }
  if (root >= 0 && rank.groups[root].reshards) rank.reshard(root, true);
  if (rank.copied !== null) {
    rank.gate = rank.copied;
    rank.copied = null;
  }
  // The buffers of the last two all-gathers stay, for no further one takes their place. The last of them counts
  // as the parameters copied out of it where these go with it.
  /** @type {Buffer[]} */
  const stay = [];
  if (before >= 0) stay.push(rank.gathered(before));
  if (latest >= 0 && !rank.groups[latest].reshards) stay.push(rank.gathered(latest));
  if (stay.length > 0) {
    const op = rank.ops[opened];
    op.takes = [...op.takes, ...stay];
    op.gives = [...op.gives, ...stay];
  }
}

/**
 * A group ends with its use; those whose inputs need no gradient with the pass, the root first.
 * @param {Rank} rank
 * @param {Readonly<Setup>} setup
 * @param {Options} options
 * @param {number} root
 * @param {Use[]} uses
 * @param {number} micro_step
 */
export function backward_pass(rank, setup, options, root, uses, micro_step) {
  const waits = setup.accumulation > 1 && !setup.sync_every_micro_batch; // gradients, for the last micro-step
  const last = micro_step === setup.accumulation;
  const syncs = last || !waits;
  const reshards = last || options.reshard_after_backward;
  /** @type {number[]} */
  const late = [];
  if (root >= 0) {
    late.push(root);
    rank.unshard(root, "backward");
    rank.wait(root, "backward");
    prefetch_backward(rank, options, root, uses, uses.length);
  }
  for (const use of uses) if (use.early && use.group !== root) late.push(use.group);
  for (let index = uses.length - 1; index >= 0; index -= 1) {
    const use = uses[index];
    if (use.group !== root) {
      rank.unshard(use.group, "backward");
      rank.wait(use.group, "backward");
      prefetch_backward(rank, options, root, uses, index);
    }
    if (setup.recompute && use.layer >= 0) {
      const { name } = rank.groups[use.group];
      rank.compute("recompute", name, "backward", rank.costs.forward[index]);
    }
    rank.backward(use, rank.costs.backward[index], waits && micro_step === 1);
    if (use.group !== root && !use.early) rank.finish(use.group, reshards, syncs);
  }
  for (const group of late) rank.finish(group, reshards, syncs);
  rank.waiting = [...rank.waiting, ...rank.reduced, ...rank.replicated];
  rank.reduced = [];
  rank.replicated = [];
}

/**
 * Gather what is used before `index`: as many layers as asked for, else the one group before.
 * @param {Rank} rank
 * @param {Options} options
 * @param {number} root
 * @param {Use[]} uses
 * @param {number} index
 */
export function prefetch_backward(rank, options, root, uses, index) {
  if (index < uses.length && uses[index].layer > 0 && options.backward_prefetch > 0) {
    const end = Math.max(-1, index - 1 - options.backward_prefetch);
    for (let ahead = index - 1; ahead > end; ahead -= 1) {
      if (uses[ahead].layer >= 0) rank.unshard(uses[ahead].group, "backward");
    }
    return;
  }
  let before = index - 1;
  while (before >= 0 && uses[before].group === root) before -= 1;
  if (before >= 0) rank.unshard(uses[before].group, "backward");
}
