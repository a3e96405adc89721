"""One line of a step's program: what every system writes and the schedule reads."""

from __future__ import annotations

from typing import NamedTuple

Buffer = tuple[str, float]
"""What is held on top of rest for a while: ("gathered" or "buckets", bytes)."""


class Op(NamedTuple):
    """An operation in issue order. Ops of one ``stream`` run one after the other, in that order."""

    op: str  # forward, recompute, backward, optimizer, or a collective's name
    group: str  # "layer 0" .., or "" when it concerns all
    phase: str  # forward, backward, step
    stream: str  # compute, comm
    seconds: float
    waits_for: tuple[int, ...] = ()  # indices of ops that must end first, beside the one before it on the stream
    elements: float = 0.0  # of the full tensor
    dtype: str = ""
    nbytes: float = 0.0  # of the full tensor
    takes: Buffer | None = None  # allocated when it starts
    gives: Buffer | None = None  # freed when it ends
