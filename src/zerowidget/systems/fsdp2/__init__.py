"""PyTorch: FSDP2's ``fully_shard`` at stages 2 and 3, DistributedDataParallel at 0 and 1; torch 2.13.

Every layer is a parameter group, and the root group has what is outside of the layers. Parameters, gradients
and optimizer are sharded at rest, whatever the stage: at stage 2 the groups gathered in the forward pass stay
whole until their backward pass (``reshard_after_forward=False``), at stage 3 they are gathered again for it.
Recorded in tests/golden/fsdp2: collectives op for op, and the waits between streams.
"""

from __future__ import annotations

from ...layout import layout_of
from ...program import Buffer, Held, Op
from ...specs import Setup
from . import ddp
from .groups import DEFAULT, Costs, Group, Mesh, Options, Use, costs_of, groups_of, mesh_of
from .parts import parts_of, stored_of
from .rank import Rank


def hold(setup: Setup, stage: int) -> list[Held]:
    """At rest, on rank 0, in bytes: an even share, but for the padding of each parameter's dimension 0.

    There is no copy in the type of compute; the sharded parameters are the master. The gradients are those
    of all groups, after the backward pass.
    """
    if stage < 2:
        return ddp.hold(setup, stage)
    stored, ranks = stored_of(setup), mesh_of(setup).shard.n
    elements = setup.N
    if setup.shapes is not None:
        elements, layout = 0.0, layout_of(setup)
        for group in groups_of(setup, stage, layout, parts_of(layout))[0]:
            elements = elements + group.elements
    falls = ranks == setup.n
    states = (("parameters", stored.each), ("gradients", stored.each), *stored.states)
    return [Held(state, "gpu", each * elements / ranks, each, ranks, falls) for state, each in states]


def program(setup: Setup, stage: int) -> list[Op]:
    """One step in issue order.

    ``prefetch``: up to 1 is what fully_shard does by itself; more is asked of it for all layers.
    """
    if stage < 2:
        return ddp.program(setup, stage)
    ahead = setup.prefetch if setup.prefetch > 1 else 0
    return sharded(setup, stage, DEFAULT._replace(forward_prefetch=ahead, backward_prefetch=ahead))


def sharded(setup: Setup, stage: int, options: Options) -> list[Op]:
    """One step in issue order at stage 2 or 3."""
    layout, mesh = layout_of(setup), mesh_of(setup)
    groups, uses = groups_of(setup, stage, layout, parts_of(layout))
    return training_step(setup, options, mesh, groups, uses, costs_of(setup, mesh, groups, uses))


def training_step(
    setup: Setup, options: Options, mesh: Mesh, groups: list[Group], uses: list[Use], costs: Costs
) -> list[Op]:
    """One step in issue order, of these costs.

    Forward, a group is gathered when its turn comes: what overlaps is what the host issues ahead of the
    device. Backward, each group gathers the one before it. Gradients are reduced in every micro-step, or kept
    whole until the last (``set_requires_gradient_sync``).
    """
    rank = Rank(mesh, groups, costs, options.separate_reduce_scatter_group)
    root = -1
    for index, group in enumerate(groups):
        root = index if group.name == "root" else root
    for micro_step in range(1, setup.accumulation + 1):
        rank.gate = rank.last + rank.waiting
        forward_pass(rank, options, root, uses)
        backward_pass(rank, setup, options, root, uses, micro_step)
    rank.compute("optimizer", "", "step", costs.optimizer)
    return rank.ops


def forward_pass(rank: Rank, options: Options, root: int, uses: list[Use]) -> None:
    """The root is gathered first, and shards again last."""
    before, latest, opened = -1, -1, -1  # the last two groups gathered, and the first compute of the second
    if root >= 0:
        rank.unshard(root, "forward")
        latest = root if rank.wait(root, "forward") else -1
    for index, use in enumerate(uses):
        group = use.group
        if group != root:
            rank.unshard(group, "forward")
            if rank.wait(group, "forward"):
                before, latest, opened = latest, group, -1
            if use.layer >= 0:
                for ahead in range(index + 1, min(len(uses), index + 1 + options.forward_prefetch)):
                    if uses[ahead].layer >= 0:
                        rank.unshard(uses[ahead].group, "forward")
        rank.compute("forward", rank.groups[group].name, "forward", rank.costs.forward[index])
        opened = rank.last[0] if opened < 0 else opened
        if group != root and rank.groups[group].reshards:
            rank.reshard(group, True)
    if root >= 0 and rank.groups[root].reshards:
        rank.reshard(root, True)
    if rank.copied is not None:
        rank.gate, rank.copied = rank.copied, None
    # The buffers of the last two all-gathers stay, for no further one takes their place. The last of them
    # counts as the parameters copied out of it where these go with it.
    stay: tuple[Buffer, ...] = ()
    if before >= 0:
        stay += (rank.gathered(before),)
    if latest >= 0 and not rank.groups[latest].reshards:
        stay += (rank.gathered(latest),)
    if len(stay) > 0:
        op = rank.ops[opened]
        rank.ops[opened] = op._replace(takes=op.takes + stay, gives=op.gives + stay)


def backward_pass(
    rank: Rank, setup: Setup, options: Options, root: int, uses: list[Use], micro_step: int
) -> None:
    """A group ends with its use; those whose inputs need no gradient with the pass, the root first."""
    waits = setup.accumulation > 1 and not setup.sync_every_micro_batch  # gradients, for the last micro-step
    last = micro_step == setup.accumulation
    syncs, reshards = last or not waits, last or options.reshard_after_backward
    late: list[int] = []
    if root >= 0:
        late.append(root)
        rank.unshard(root, "backward")
        rank.wait(root, "backward")
        prefetch_backward(rank, options, root, uses, len(uses))
    for use in uses:
        if use.early and use.group != root:
            late.append(use.group)
    for index in range(len(uses) - 1, -1, -1):
        use = uses[index]
        if use.group != root:
            rank.unshard(use.group, "backward")
            rank.wait(use.group, "backward")
            prefetch_backward(rank, options, root, uses, index)
        if setup.recompute and use.layer >= 0:
            name = rank.groups[use.group].name
            rank.compute("recompute", name, "backward", rank.costs.forward[index])
        rank.backward(use, rank.costs.backward[index], waits and micro_step == 1)
        if use.group != root and not use.early:
            rank.finish(use.group, reshards, syncs)
    for group in late:
        rank.finish(group, reshards, syncs)
    rank.waiting += rank.reduced + rank.replicated
    rank.reduced, rank.replicated = (), ()


def prefetch_backward(rank: Rank, options: Options, root: int, uses: list[Use], index: int) -> None:
    """Gather what is used before ``index``: as many layers as asked for, else the one group before."""
    if index < len(uses) and uses[index].layer > 0 and options.backward_prefetch > 0:
        for ahead in range(index - 1, max(-1, index - 1 - options.backward_prefetch), -1):
            if uses[ahead].layer >= 0:
                rank.unshard(uses[ahead].group, "backward")
        return
    before = index - 1
    while before >= 0 and uses[before].group == root:
        before -= 1
    if before >= 0:
        rank.unshard(uses[before].group, "backward")
