"""What every system writes: what it holds, the collectives of a step, and its program for the schedule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from .comms import seconds
from .specs import Cluster

Buffer = tuple[str, float]
"""What is held on top of rest for a while: its state, and bytes."""

BUFFERS = ("gathered", "buckets", "whole_gradients", "copies")
"""The states of buffers, in drawing order.

``gathered``: parameters gathered for compute. ``buckets``: gradients on their way to their reduction.
``whole_gradients``: gradients that wait unreduced for the last micro-step. ``copies``: what the optimizer
step makes for itself.
"""


class Held(NamedTuple):
    """Something that a rank holds at rest."""

    state: str  # parameters, gradients, or a state of the optimizer; or one of BUFFERS
    device: str  # gpu, cpu, nvme
    nbytes: float
    each: float = 0.0  # bytes per parameter of the whole; 0: no multiple of N
    over: int = 1  # ranks that share the whole
    falls: bool = False  # whether it shrinks as n grows


@dataclass(frozen=True)
class Collective:
    """The collectives of one kind in a step: all ``count`` of them together."""

    phase: str
    op: str
    dtype: str
    count: int
    elements: float  # of the full tensors
    nbytes: float  # of the full tensors
    seconds: float  # one after the other
    ranks: int  # that take part in one
    leaves: bool  # whether its ring leaves a node


class Op(NamedTuple):
    """An operation in issue order. Ops of one ``stream`` run one after the other, in that order."""

    op: str  # forward, recompute, backward, optimizer, or a collective's name
    group: str  # "layer 0" .., "root", "bucket 0" .., or "" when it concerns all
    phase: str  # forward, backward, step
    stream: str  # compute, comm, replicas
    seconds: float
    waits_for: tuple[int, ...] = ()  # indices of ops that must end first, on any stream
    elements: float = 0.0  # of the full tensor
    dtype: str = ""
    nbytes: float = 0.0  # of the full tensor
    takes: tuple[Buffer, ...] = ()  # allocated when it starts
    gives: tuple[Buffer, ...] = ()  # freed when it ends
    queues: tuple[Buffer, ...] = ()  # allocated when all it waits for has ended: its stream may be busy yet
    ranks: int = 0  # that take part in a collective
    leaves: bool = False  # whether its ring leaves a node
    module: str = ""  # the part of the group, where a system works on parts


def collective_op(
    op: str,
    group: str,
    phase: str,
    waits: tuple[int, ...],
    elements: float,
    dtype: str,
    nbytes: float,
    cluster: Cluster,
    module: str = "",
    takes: tuple[Buffer, ...] = (),
    gives: tuple[Buffer, ...] = (),
    queues: tuple[Buffer, ...] = (),
    stream: str = "comm",
    length: float | None = None,
) -> Op:
    """A collective among the ranks of ``cluster``; ``length``: its seconds, if not those of the cluster."""
    return Op(
        op,
        group,
        phase,
        stream,
        seconds(op, nbytes, cluster) if length is None else length,
        waits,
        elements,
        dtype,
        nbytes,
        takes,
        gives,
        queues,
        cluster.n,
        cluster.leaves,
        module,
    )


def collected(ops: list[Op]) -> list[Collective]:
    """The collectives of a program, those of one phase, op, type and set of ranks together."""
    kinds: dict[tuple[object, ...], Collective] = {}
    for op in ops:
        if op.stream == "compute":
            continue
        key = (op.phase, op.op, op.dtype, op.ranks, op.leaves)
        sofar = kinds.get(key)
        if sofar is None:
            kinds[key] = Collective(
                op.phase, op.op, op.dtype, 1, op.elements, op.nbytes, op.seconds, op.ranks, op.leaves
            )
        else:
            kinds[key] = replace(
                sofar,
                count=sofar.count + 1,
                elements=sofar.elements + op.elements,
                nbytes=sofar.nbytes + op.nbytes,
                seconds=sofar.seconds + op.seconds,
            )
    return list(kinds.values())
