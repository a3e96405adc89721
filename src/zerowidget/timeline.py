"""From a program to times: one forward pass over FIFO streams, then what is exposed and what is live."""

from __future__ import annotations

from typing import NamedTuple

from .program import Op
from .specs import Setup
from .systems import system_of


class Span(NamedTuple):
    """An op with its time; seconds from the start of the step."""

    op: Op
    start: float
    end: float
    cause: int | None  # index of the span whose end let this one start; None: it starts at once


class Live(NamedTuple):
    """What is held on top of rest from ``time`` until the next entry, in bytes."""

    time: float
    gathered: float
    buckets: float


class Step(NamedTuple):
    """One step of a stage, scheduled."""

    spans: list[Span]
    exposed: list[float]  # seconds, per span: the part of a collective during which compute waits
    seconds: float
    live: list[Live]
    peak: Live  # the entry of ``live`` that holds most


def step_of(setup: Setup, stage: int) -> Step:
    """The step that ``setup`` takes at ``stage``."""
    spans = schedule(system_of(setup).program(setup, stage))
    seconds = 0.0
    for span in spans:
        seconds = max(seconds, span.end)
    live = live_bytes(spans)
    peak = Live(0.0, 0.0, 0.0)
    for entry in live:
        if entry.gathered + entry.buckets > peak.gathered + peak.buckets:
            peak = entry
    return Step(spans, exposed_seconds(spans, seconds), seconds, live, peak)


def schedule(ops: list[Op]) -> list[Span]:
    """Each op starts when its stream is free and all it waits for has ended.

    >>> schedule([Op("a", "", "", "comm", 2.0), Op("b", "", "", "compute", 1.0, (0,))])[1][1:]
    (2.0, 3.0, 0)
    """
    spans: list[Span] = []
    last: dict[str, int] = {}
    for index, op in enumerate(ops):
        start, cause = 0.0, None
        for before in op.waits_for:
            if spans[before].end > start:
                start, cause = spans[before].end, before
        previous = last.get(op.stream)
        if previous is not None and spans[previous].end > start:
            start, cause = spans[previous].end, previous
        spans.append(Span(op, start, start + op.seconds, cause))
        last[op.stream] = index
    return spans


def exposed_seconds(spans: list[Span], end: float) -> list[float]:
    """Per span, how long it runs while the compute stream stands still before ``end``."""
    gaps: list[tuple[float, float]] = []
    busy_until = 0.0
    for span in spans:
        if span.op.stream == "compute":
            if span.start > busy_until:
                gaps.append((busy_until, span.start))
            busy_until = span.end
    if end > busy_until:
        gaps.append((busy_until, end))
    exposed: list[float] = []
    first = 0  # gaps before it are over: spans of the one network stream come in order
    for span in spans:
        seconds = 0.0
        if span.op.stream != "compute":
            while first < len(gaps) and gaps[first][1] <= span.start:
                first += 1
            gap = first
            while gap < len(gaps) and gaps[gap][0] < span.end:
                seconds = seconds + (min(gaps[gap][1], span.end) - max(gaps[gap][0], span.start))
                gap += 1
        exposed.append(seconds)
    return exposed


def live_bytes(spans: list[Span]) -> list[Live]:
    """What the step holds on top of rest, over time.

    At one moment, frees come before allocations: that moment is when the second waited for the first.
    """
    changes = []
    for span in spans:
        if span.op.takes is not None:
            changes.append((span.start, 1, span.op.takes))
        if span.op.gives is not None:
            changes.append((span.end, 0, span.op.gives))
    changes.sort(key=lambda change: change[:2])
    live: list[Live] = []
    held = {"gathered": 0.0, "buckets": 0.0}
    many = {"gathered": 0, "buckets": 0}
    for index, (time, takes, (buffer, nbytes)) in enumerate(changes):
        many[buffer] += 1 if takes else -1
        held[buffer] = held[buffer] + (nbytes if takes else -nbytes)
        if many[buffer] == 0:
            held[buffer] = 0.0  # no rounding is left behind
        if index + 1 == len(changes) or changes[index + 1][0] > time:
            live.append(Live(time, held["gathered"], held["buckets"]))
    return live
