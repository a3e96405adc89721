"""What every system writes: the collectives of a step, and its program, which the schedule reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

Buffer = tuple[str, float]
"""What is held on top of rest for a while: ("gathered" or "buckets", bytes)."""


@dataclass(frozen=True)
class Collective:
    """One kind of collective of a step: ``count`` of them, each on a full tensor of ``elements``."""

    phase: str
    op: str
    dtype: str
    count: int
    elements: float
    nbytes: float


class Op(NamedTuple):
    """An operation in issue order. Ops of one ``stream`` run one after the other, in that order."""

    op: str  # forward, recompute, backward, optimizer, or a collective's name
    group: str  # "layer 0" .., or "" when it concerns all
    phase: str  # forward, backward, step
    stream: str  # compute, comm
    seconds: float
    waits_for: tuple[int, ...] = ()  # indices of ops that must end first, on any stream
    elements: float = 0.0  # of the full tensor
    dtype: str = ""
    nbytes: float = 0.0  # of the full tensor
    takes: Buffer | None = None  # allocated when it starts
    gives: Buffer | None = None  # freed when it ends
