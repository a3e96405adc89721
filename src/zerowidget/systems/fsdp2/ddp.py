"""PyTorch's DistributedDataParallel (stage 0), and with it ZeroRedundancyOptimizer (stage 1), torch 2.13.

Recorded in tests/golden/ddp. The steady state is told, from the third step on: in the first, DDP reduces one
bucket that holds everything, and after it builds its buckets anew in the order in which gradients were ready.
"""

from __future__ import annotations

from typing import NamedTuple

from ...layout import Layout, Parameter, elements_in, first_uses, layout_of, part_of, ready_order
from ...program import Held, Op, collective_op
from ...specs import Cluster, Setup, cluster_of
from .parts import Part, Stored, parts_of, step_seconds, stored_of

MIB = 1048576.0
DEFAULT_CAPS = (1.0, 25.0)
"""MiB of the first bucket, and of the others (torch/nn/parallel/distributed.py)."""


class Bucket(NamedTuple):
    """Gradients that are reduced together."""

    parameters: list[int]  # in the order in which their gradients are ready
    elements: float
    part: int  # the part whose backward pass completes it


def buckets_of(layout: Layout, parts: list[Part], each: float, caps: tuple[float, float]) -> list[Bucket]:
    """The buckets of the steady state: one is full as soon as it reaches its cap.

    ``each``: bytes. ``caps``: ``bucket_cap_mb`` where it is given, twice.
    """
    part_of = [0] * len(layout.modules)
    for number, part in enumerate(parts):
        for index in part.modules:
            part_of[index] = number
    first = first_uses(layout)
    cap, later = caps
    buckets: list[Bucket] = []
    members: list[int] = []
    elements = 0.0
    order = [parameter for mine in reversed(ready_order(layout)) for parameter in mine]
    for count, parameter in enumerate(order, 1):
        members.append(parameter)
        elements = elements + layout.parameters[parameter].elements
        if elements * each >= cap * MIB or count == len(order):
            buckets.append(Bucket(members, elements, part_of[first[parameter]]))
            members, elements, cap = [], 0.0, later
    return buckets


def owned_by_rank(parameters: tuple[Parameter, ...], n: int) -> list[list[int]]:
    """The parameters that each rank updates under ZeroRedundancyOptimizer.

    Whole ones, the largest first, each to the rank that has the fewest elements yet, the lowest such rank
    (torch/distributed/optim/zero_redundancy_optimizer.py). Ranks that would get none are left out.
    """
    order = sorted(range(len(parameters)), key=lambda index: -parameters[index].elements)
    ranks = min(n, len(parameters))
    owned: list[list[int]] = [[] for _ in range(ranks)]
    load = [0.0] * ranks
    for index in order:
        rank = load.index(min(load))
        owned[rank].append(index)
        load[rank] = load[rank] + parameters[index].elements
    return owned


def heaviest(parameters: tuple[Parameter, ...], owned: list[list[int]]) -> float:
    """The elements of the rank that updates most."""
    most = 0.0
    for members in owned:
        most = max(most, elements_in(parameters, members))
    return most


def hold(setup: Setup, stage: int, views: bool = False) -> list[Held]:
    """At rest, on the rank that holds most, in bytes: nothing is sharded but, at stage 1, the optimizer.

    The reducer keeps buckets as large as all gradients beside them, unless gradients are ``views`` of
    these (``gradient_as_bucket_view``).
    """
    stored = stored_of(setup)
    whole = stored.each * setup.N
    held = [Held(state, "gpu", whole, stored.each) for state in ("parameters", "gradients")]
    mine, over = setup.N, 1
    if stage == 1 and setup.n > 1:
        parameters = layout_of(setup).parameters
        mine, over = heaviest(parameters, owned_by_rank(parameters, setup.n)), setup.n
    for state, each in stored.states:
        held.append(Held(state, "gpu", each * mine, each, over, stage == 1))
    if not views:
        held.append(Held("buckets", "gpu", whole, stored.each))
    return held


def program(setup: Setup, stage: int, caps: tuple[float, float] = DEFAULT_CAPS) -> list[Op]:
    """One step in issue order. Buckets are reduced under the backward pass, whose end waits for all of them.

    With accumulation the reduction waits for the last micro-step (``no_sync``), unless every one has its own.
    At stage 1 every rank broadcasts the parameters that it has updated, one by one.
    """
    layout, stored, cluster = layout_of(setup), stored_of(setup), cluster_of(setup)
    parts = parts_of(layout)
    buckets = buckets_of(layout, parts, stored.each, caps)
    complete: list[list[int]] = [[] for _ in parts]  # the buckets that a part completes
    for number, bucket in enumerate(buckets):
        complete[bucket.part].append(number)
    ops: list[Op] = []
    reduced: tuple[int, ...] = ()  # the last reduction of the micro-step before
    for micro_step in range(1, setup.accumulation + 1):
        reduces = setup.n > 1 and (setup.sync_every_micro_batch or micro_step == setup.accumulation)
        for part in parts:
            ops.append(Op("forward", part.group, "forward", "compute", part.flops / cluster.flops, reduced))
            reduced = ()
        for number in range(len(parts) - 1, -1, -1):
            part = parts[number]
            if setup.recompute and part.layer:
                ops.append(Op("recompute", part.group, "backward", "compute", part.flops / cluster.flops))
            length = 2.0 * part.flops / cluster.flops
            backward = len(ops)
            ops.append(Op("backward", part.group, "backward", "compute", length))
            if reduces:
                for index in complete[number]:
                    reduced = (len(ops),)
                    ops.append(reduce_op(buckets[index].elements, index, backward, stored, cluster))
    owned: list[list[int]] = []
    mine = setup.N
    if stage == 1 and setup.n > 1:
        owned = owned_by_rank(layout.parameters, setup.n)
        mine = heaviest(layout.parameters, owned)
    ops.append(Op("optimizer", "", "step", "compute", step_seconds(setup, mine), reduced))
    optimizer = len(ops) - 1
    first = first_uses(layout)
    for members in owned:
        for parameter in members:
            module = layout.modules[first[parameter]]
            elements = layout.parameters[parameter].elements
            nbytes = stored.each * elements
            group, name, waits = module.group, part_of(module.name), (optimizer,)
            ops.append(
                collective_op(
                    "broadcast", group, "step", waits, elements, stored.dtype, nbytes, cluster, name
                )
            )
    return ops


def reduce_op(elements: float, index: int, backward: int, stored: Stored, cluster: Cluster) -> Op:
    """The all-reduce of a bucket, once the op ``backward`` has completed it."""
    nbytes = stored.each * elements
    group, waits = f"bucket {index}", (backward,)
    return collective_op("all_reduce", group, "backward", waits, elements, stored.dtype, nbytes, cluster)
