"""DeepSpeed's stage 3: parameters are gathered module by module, gradients reduce-scattered in buckets.

From deepspeed 0.19.8: runtime/zero/stage3.py; what is gathered when is in ``coordinator``. The times
assume a host in step with the device: a gather is issued when the module that asks for it could start.
DeepSpeed's own streams do not bind it so (recorded: the gather stream never waits for compute); a host that
runs ahead gathers earlier.

ZeRO++ (arXiv:2306.10209): quantized weights travel as int8 and gradients as int4; the scales of their blocks
are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...layout import elements_in, part_of
from ...program import Buffer, Op
from ...specs import Setup
from .coordinator import Gather, Moment
from .parts import Draft, communicate, compute, during, finished, give, take, update
from .plan import Plan, buckets_of, completes, moments_of, plan_of
from .trace import Node


@dataclass
class Bucket:
    """The bucket that is filling."""

    number: int = 0
    after: int = -1  # index of the compute op of the last gradient in it
    kept: list[Buffer] = field(default_factory=list)  # gradients that do not fit into the buffer


@dataclass
class Gathered:
    """What is gathered in a micro-step, and which ops brought it."""

    ops: list[int] = field(default_factory=list)  # index of the op of each gather
    carriers: list[int] = field(default_factory=list)  # per parameter, index of the op that brought it
    spanning: int = 0  # gathers so far that bring parameters of several groups


def program3(setup: Setup) -> list[Op]:
    """One step of stage 3 in issue order."""
    return program_of(plan_of(setup))


def program_of(plan: Plan) -> list[Op]:
    """One step in issue order.

    Each module waits for its own parameters. Gradients are reduced when the next one would overflow the
    bucket, and when a backward pass ends, which waits for it.
    """
    draft = Draft()
    labels = labels_of(plan)
    buckets = buckets_of(plan)
    alone = plan.cluster.n == 1
    numbers = [0] * len(plan.layout.parameters)  # of the bucket of each gradient
    for number, members in enumerate(buckets):
        for parameter in members:
            numbers[parameter] = number
    shards: list[Buffer] = []  # second shards, until the optimizer step makes them stale
    for moments in moments_of(plan):
        bucket, gathered = Bucket(), Gathered(carriers=[-1] * len(plan.layout.parameters))
        waits: list[list[int]] = [[] for _ in plan.nodes]
        for moment in moments:
            visit = moment.visit
            if visit.kind == "compute":
                node = plan.nodes[visit.node]
                draft.waits = draft.waits + waits[visit.node]
                waits[visit.node] = []
                if not plan.overlap and draft.comm >= 0:
                    draft.waits = [draft.comm]  # all on one stream
                if visit.op == "backward":
                    write_backward(draft, plan, node, buckets, numbers, bucket)
                else:
                    length = seconds_of(plan.forward, node)
                    compute(draft, visit.op, node.group, visit.phase, length, label_of(node))
            elif not alone:
                for request in moment.requests:
                    for gather in request.gathers:
                        write_gather(draft, plan, labels, visit.phase, gather, gathered)
                for number in moment.waits:
                    waits[visit.node].append(gathered.ops[number])
                free(draft, plan, moment, gathered, shards)
        flush(draft, plan, buckets, bucket)
        if draft.comm >= 0:
            draft.waits = [draft.comm]
    update(draft, plan.scalars, plan.step, plan.copies, plan.cluster)
    give(draft, shards)
    if not alone:
        gather_persistent(draft, plan, labels)
    return finished(draft)


def write_gather(
    draft: Draft, plan: Plan, labels: list[tuple[str, str]], phase: str, gather: Gather, gathered: Gathered
) -> None:
    """Write an all-gather, issued when the module that asks could start."""
    elements = 0.0
    group, module = labels[gather.parameters[0]]
    for parameter in gather.parameters:
        elements = elements + plan.padded[parameter]
        gathered.carriers[parameter] = len(draft.ops)
        if labels[parameter] != (group, module):
            module = ""
        if labels[parameter][0] != group:
            group = ""
    if group == "":
        group = f"bucket {gathered.spanning}"
        gathered.spanning += 1
    gathered.ops.append(len(draft.ops))
    dtype, each = plan.gather
    cluster = plan.near if gather.near else plan.cluster
    communicate(draft, draft.compute, "all_gather", group, phase, elements, dtype, each, cluster, module)


def free(
    draft: Draft,
    plan: Plan,
    moment: Moment,
    gathered: Gathered,
    shards: list[Buffer],
) -> None:
    """Free parameters when the compute so far ends, and keep a second shard of them with hpZ."""
    place = 0
    while place < len(moment.frees):
        carrier = gathered.carriers[moment.frees[place]]
        elements = 0.0
        while place < len(moment.frees) and gathered.carriers[moment.frees[place]] == carrier:
            elements = elements + plan.layout.parameters[moment.frees[place]].elements
            place += 1
        buffer: Buffer = ("gathered", plan.param * elements)
        draft.takes[carrier].append(buffer)
        draft.gives[draft.compute].append(buffer)
    if moment.shards:
        elements = 0.0
        for parameter in moment.shards:
            elements = elements + plan.padded[parameter]
        shard: Buffer = ("gathered", plan.param * elements / plan.near.n)
        draft.takes[draft.compute].append(shard)
        shards.append(shard)


def write_backward(
    draft: Draft, plan: Plan, node: Node, buckets: list[list[int]], numbers: list[int], bucket: Bucket
) -> None:
    """Write the backward pass of a module, and put its gradients into the bucket.

    A full bucket waits for the last gradient in it alone, so it goes before the module that overflows it.
    """
    mine = completes(plan, node)
    if plan.overlap and mine and numbers[mine[0]] > bucket.number:
        flush(draft, plan, buckets, bucket)
    passing = 0.0
    kept: list[Buffer] = []
    for parameter in mine:
        elements = plan.layout.parameters[parameter].elements
        if fits(plan, elements):
            passing = passing + plan.param * elements
        else:
            kept.append(("buckets", plan.param * elements))
    compute(draft, "backward", node.group, "backward", seconds_of(plan.backward, node), label_of(node))
    take(draft, kept)
    if passing > 0.0:
        during(draft, ("buckets", passing))
    for parameter in mine:
        if numbers[parameter] > bucket.number:
            flush(draft, plan, buckets, bucket)
        bucket.after = draft.compute
        elements = plan.layout.parameters[parameter].elements
        if not fits(plan, elements):
            bucket.kept.append(("buckets", plan.param * elements))


def fits(plan: Plan, elements: float) -> bool:
    """Whether a gradient goes into the bucket's buffer, or stays where autograd left it."""
    return plan.contiguous and elements <= plan.bucket


def flush(draft: Draft, plan: Plan, buckets: list[list[int]], bucket: Bucket) -> None:
    """Reduce-scatter what is in the bucket, which is laid out rank by rank first."""
    members = buckets[bucket.number]
    whole = elements_in(plan.layout.parameters, members)
    elements = 0.0
    for parameter in members:
        elements = elements + plan.padded[parameter]
    if plan.cluster.n > 1:
        after = bucket.after if plan.overlap else draft.compute
        group, (dtype, each) = f"bucket {bucket.number}", plan.reduce
        communicate(
            draft, after, "reduce_scatter", group, "backward", elements, dtype, each, plan.cluster, ""
        )
        if len(members) > 1 or elements > whole:
            during(draft, ("buckets", plan.param * elements))
    give(draft, bucket.kept)
    bucket.number += 1
    bucket.kept = []


def gather_persistent(draft: Draft, plan: Plan, labels: list[tuple[str, str]]) -> None:
    """Write the all-gathers of the small parameters that stay whole, one each (``_post_step``)."""
    dtype, param, cluster = plan.dtype, plan.param, plan.cluster
    for parameter, elements in enumerate(plan.padded):
        if plan.layout.parameters[parameter].elements > plan.limits.persistence:
            continue
        group, module = labels[parameter]
        communicate(
            draft, draft.compute, "all_gather", group, "step", elements, dtype, param, cluster, module
        )


def labels_of(plan: Plan) -> list[tuple[str, str]]:
    """Per parameter, the group and the module part that it is in."""
    labels = [("", "")] * len(plan.layout.parameters)
    for node in reversed(plan.nodes):
        for parameter in node.parameters:
            labels[parameter] = (node.group, label_of(node))
    return labels


def label_of(node: Node) -> str:
    """The part of the group that a node is, or "" when it is all of it."""
    if node.group != "root" and len(node.modules) > 1:
        return ""
    return part_of(node.name)


def seconds_of(lengths: list[float], node: Node) -> float:
    """Seconds of what a node computes by itself."""
    length = 0.0
    for number in node.modules:
        length = length + lengths[number]
    return length
