"""Two systems side by side: what differs at the selected stage, and where it comes from."""

from __future__ import annotations

from typing import Any

from .memory import at_rest, nbytes_of, on_top
from .program import Held
from .rows import steps_of, summary
from .specs import Setup
from .words import has_word, say

QUANTITIES = {
    "volume": "elements",
    "between_bytes": "bytes",
    "messages": "count",
    "exposed": "seconds",
    "step": "seconds",
}
"""Columns of the summary that are compared, beside memory, and what they are."""


def system_key(setup: Setup, stage: int) -> str:
    """What the words call the system at a stage: PyTorch's stages 0 and 1 are not FSDP2 but DDP."""
    return "ddp" if setup.system == "fsdp2" and stage < 2 else setup.system


def differences(setup: Setup) -> list[dict[str, Any]]:
    """The selected stage of ``setup.system`` against that of ``setup.compare``; nothing without the latter.

    Columns: part, when (rest, peak, step), quantity (bytes, elements, count, seconds), first, second, why.
    A row for every state and buffer, for the sums, and for what a step sends and takes, where they differ.
    ``why``: where each side's number comes from, in the setup's language.
    """
    if setup.compare is None or setup.compare == setup.system:
        return []
    sides = (setup, setup.but(system=setup.compare))
    steps = [steps_of(side) for side in sides]
    return compared(sides, steps, [summary(side, step) for side, step in zip(sides, steps, strict=True)])


def compared(
    sides: tuple[Setup, Setup], steps: list[Any], rows: list[list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """The differences of two setups; ``steps`` and ``rows``: their schedules and summaries."""
    stage = sides[0].stage
    found: list[dict[str, Any]] = []
    for when in ("rest", "peak"):
        held = [at_rest(sides[i], stage) if when == "rest" else on_top(steps[i][stage]) for i in (0, 1)]
        for state in dict.fromkeys(part.state for both in held for part in both):
            first, second = (bytes_in(both, state) for both in held)
            found.append(line(sides, stage, state, when, "bytes", first, second))
        first, second = (row[stage][when] for row in rows)
        found.append(line(sides, stage, when, when, "bytes", first, second))
    for column, quantity in QUANTITIES.items():
        first, second = (float(row[stage][column]) for row in rows)
        found.append(line(sides, stage, column, "step", quantity, first, second))
    return [row for row in found if row["first"] != row["second"]]


def bytes_in(held: list[Held], state: str) -> float:
    """GPU bytes of one state."""
    return nbytes_of([part for part in held if part.state == state])


def line(
    sides: tuple[Setup, Setup], stage: int, part: str, when: str, quantity: str, first: float, second: float
) -> dict[str, Any]:
    """One row, with what the words know about the part on either side."""
    language = sides[0].language
    told = []
    for side, value in zip(sides, (first, second), strict=True):
        key = origin(side, stage, part, when)
        if key != "" and (value > 0.0 or part == "master"):
            name = say(f"system_{system_key(side, stage)}", language)
            told.append(say("why_side", language, system=name, why=say(key, language)))
    row: dict[str, Any] = {"part": part, "when": when, "quantity": quantity, "first": first, "second": second}
    return row | {"why": ("\uff1b" if language == "zh" else "; ").join(told)}


def origin(setup: Setup, stage: int, part: str, when: str) -> str:
    """The key of the sentence that says where a part comes from, and its knob; "" where there is none."""
    system = system_key(setup, stage)
    for key in (f"why_{part}_{when}_{system}", f"why_{part}_{system}"):
        if has_word(key):
            return key
    return ""
