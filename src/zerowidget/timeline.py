"""From a program to times: one forward pass over FIFO streams, then what is exposed and what is live."""

from __future__ import annotations

from typing import NamedTuple

from .program import BUFFERS, Buffer, Op
from .specs import Setup
from .systems import system_of


class Span(NamedTuple):
    """An op with its time; seconds from the start of the step."""

    op: Op
    start: float
    end: float
    cause: int | None  # index of the span whose end let this one start; None: it starts at once


class Live(NamedTuple):
    """What is held on top of rest from ``time`` until the next entry, in bytes; names as in BUFFERS."""

    time: float
    gathered: float
    buckets: float
    whole_gradients: float
    copies: float
    nbytes: float  # all of them


class Step(NamedTuple):
    """One step of a stage, scheduled."""

    stage: int
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
    peak = Live(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for entry in live:
        if entry.nbytes > peak.nbytes:
            peak = entry
    return Step(stage, spans, exposed_seconds(spans, seconds), seconds, live, peak)


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


def gaps_of(spans: list[Span], end: float) -> list[tuple[float, float]]:
    """When the compute stream stands still before ``end``."""
    gaps: list[tuple[float, float]] = []
    busy_until = 0.0
    for span in spans:
        if span.op.stream == "compute":
            if span.start > busy_until:
                gaps.append((busy_until, span.start))
            busy_until = span.end
    if end > busy_until:
        gaps.append((busy_until, end))
    return gaps


def exposed_seconds(spans: list[Span], end: float) -> list[float]:
    """Per span, how long it runs while the compute stream stands still before ``end``.

    Where collectives run side by side on streams of their own, a moment counts for the one that began first:
    so all of them together are exposed for as long as compute waits for any.
    """
    gaps = gaps_of(spans, end)
    exposed = [0.0] * len(spans)
    network = [index for index, span in enumerate(spans) if span.op.stream != "compute"]
    network.sort(key=lambda index: spans[index].start)
    first = 0  # gaps before it are over
    until = 0.0  # moments before it are counted
    for index in network:
        span = spans[index]
        start = max(span.start, until)
        seconds = 0.0
        while first < len(gaps) and gaps[first][1] <= start:
            first += 1
        gap = first
        while gap < len(gaps) and gaps[gap][0] < span.end:
            seconds = seconds + max(0.0, min(gaps[gap][1], span.end) - max(gaps[gap][0], start))
            gap += 1
        exposed[index] = seconds
        until = max(until, span.end)
    return exposed


def live_bytes(spans: list[Span]) -> list[Live]:
    """What the step holds on top of rest, over time.

    At one moment, frees come before allocations: that moment is when the second waited for the first.
    """
    changes: list[tuple[float, int, Buffer]] = []
    for span in spans:
        for taken in span.op.takes:
            changes.append((span.start, 1, taken))
        for given in span.op.gives:
            changes.append((span.end, 0, given))
        if span.op.queues:
            ready = 0.0
            for before in span.op.waits_for:
                ready = max(ready, spans[before].end)
            for queued in span.op.queues:
                changes.append((ready, 1, queued))
    changes.sort(key=lambda change: change[:2])
    live: list[Live] = []
    held = dict.fromkeys(BUFFERS, 0.0)
    many = dict.fromkeys(BUFFERS, 0)
    for index, (time, takes, (buffer, nbytes)) in enumerate(changes):
        many[buffer] += 1 if takes else -1
        held[buffer] = held[buffer] + (nbytes if takes else -nbytes)
        if many[buffer] == 0:
            held[buffer] = 0.0  # no rounding is left behind
        if index + 1 == len(changes) or changes[index + 1][0] > time:
            gathered, buckets, whole, copies = held.values()
            live.append(Live(time, gathered, buckets, whole, copies, gathered + buckets + whole + copies))
    return live
