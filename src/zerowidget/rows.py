"""The tidy rows: the only shape in which numbers leave the core. Column names are the contract."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .comms import ROUNDS, seconds, wire_bytes
from .memory import at_rest, nbytes_of, on_top
from .specs import Setup, cluster_of, total
from .systems import collectives_of
from .timeline import Step, step_of

STAGES = (0, 1, 2, 3)


def steps_of(setup: Setup) -> list[Step]:
    """The steps of all stages: pass them on where several tables are made of one setup."""
    return [step_of(setup, stage) for stage in STAGES]


def memory_rows(setup: Setup, steps: list[Step] | None = None) -> list[dict[str, Any]]:
    """Bytes per GPU: stage, state, device, when (rest, or peak: on top of rest), nbytes, falls.

    ``falls``: whether the part shrinks as n grows.
    """
    rows = []
    for stage, step in enumerate(steps or steps_of(setup)):
        for when, held in (("rest", at_rest(setup, stage)), ("peak", on_top(step))):
            for part in held:
                row = {"stage": stage, "state": part.state, "device": part.device, "when": when}
                rows.append(row | {"nbytes": part.nbytes, "falls": part.falls})
    return rows


def communication_rows(setup: Setup, steps: list[Step] | None = None) -> list[dict[str, Any]]:
    """What one step communicates.

    Columns: stage, phase, op, dtype, count, elements, nbytes, wire_bytes, seconds, latency, ranks,
    between_bytes.

    ``elements`` and ``nbytes`` are of the full tensors of all ``count`` collectives together, ``wire_bytes``
    is what one rank sends for them, ``between_bytes`` as much of it as goes round rings that leave a node,
    ``seconds`` their time one after the other, ``latency`` the part of it that no bandwidth takes away,
    ``ranks`` how many take part in one.
    """
    rows = []
    for stage, step in enumerate(steps or steps_of(setup)):
        for kind in collectives_of(setup, stage, [span.op for span in step.spans]):
            row = {"stage": stage, "phase": kind.phase, "op": kind.op, "dtype": kind.dtype}
            row |= {"count": kind.count, "elements": kind.elements, "nbytes": kind.nbytes}
            sent = wire_bytes(kind.op, kind.nbytes, kind.ranks)
            row |= {"wire_bytes": sent, "seconds": kind.seconds}
            ring = cluster_of(setup, kind.ranks, setup.gpus_per_node if kind.leaves else 1)
            row["latency"] = kind.count * seconds(kind.op, 0.0, ring)
            row |= {"ranks": kind.ranks, "between_bytes": sent if kind.leaves else 0.0}
            rows.append(row)
    return rows


def timeline_rows(setup: Setup, step: Step | None = None) -> list[dict[str, Any]]:
    """One step of the selected stage, in issue order.

    Columns: stage, index, op, group, phase, stream, start, end, elements, dtype, nbytes, waits_for, exposed,
    ranks, module. Seconds from the start of the step; ``waits_for`` is the index of the row whose end let
    this one start, None when it starts at once; ``ranks`` take part in a collective; ``module`` is the part
    of the group, where a system works on parts.
    """
    step = step or step_of(setup, setup.stage)
    rows = []
    for index, (span, exposed) in enumerate(zip(step.spans, step.exposed, strict=True)):
        op = span.op
        row = {"stage": setup.stage, "index": index, "op": op.op, "group": op.group, "phase": op.phase}
        row |= {"stream": op.stream, "start": span.start, "end": span.end, "elements": op.elements}
        row |= {"dtype": op.dtype, "nbytes": op.nbytes, "waits_for": span.cause, "exposed": exposed}
        rows.append(row | {"ranks": op.ranks, "module": op.module})
    return rows


def summary(setup: Setup, steps: list[Step] | None = None) -> list[dict[str, Any]]:
    """One row per stage: what it holds, sends and takes.

    Columns: stage, rest, peak, fits (at rest), fits_peak, volume, wire_bytes, between_bytes, relative,
    messages, latency, compute, communication, exposed, step.

    Bytes and seconds. ``volume``: elements a rank sends and receives, as the paper counts them (2N, 2N, 2N,
    3N). ``relative``: wire bytes against plain data parallelism, the system's own stage 0; None on a single
    GPU. ``messages``: collectives; ``latency``: the part of their time that has nothing to do with bytes.
    """
    capacity = cluster_of(setup).capacity
    steps = steps or steps_of(setup)
    sent = communication_rows(setup, steps)
    plain = total([row["wire_bytes"] for row in sent if row["stage"] == 0])
    rows = []
    for stage, step in enumerate(steps):
        mine = [row for row in sent if row["stage"] == stage]
        rest = nbytes_of(at_rest(setup, stage))
        peak = rest + nbytes_of(on_top(step))
        wire = total([row["wire_bytes"] for row in mine])
        row: dict[str, Any] = {"stage": stage, "rest": rest, "peak": peak}
        row |= {"fits": rest <= capacity, "fits_peak": peak <= capacity}
        row["volume"] = total([ROUNDS[row["op"]] * row["elements"] for row in mine])
        row["wire_bytes"] = wire
        row["between_bytes"] = total([row["between_bytes"] for row in mine])
        row["relative"] = wire / plain if plain > 0.0 else None
        row["messages"] = sum(row["count"] for row in mine)
        row["latency"] = total([row["latency"] for row in mine])
        row["compute"] = total([span.op.seconds for span in step.spans if span.op.stream == "compute"])
        row["communication"] = total([span.op.seconds for span in step.spans if span.op.stream != "compute"])
        row["exposed"] = total(step.exposed)
        row["step"] = step.seconds
        rows.append(row)
    return rows


def tables(setup: Setup) -> dict[str, Any]:
    """The setup and all its rows, from one schedule: setup, summary, memory, communication, timeline."""
    steps = steps_of(setup)
    return {
        "setup": asdict(setup),
        "summary": summary(setup, steps),
        "memory": memory_rows(setup, steps),
        "communication": communication_rows(setup, steps),
        "timeline": timeline_rows(setup, steps[setup.stage]),
    }
