"""The picture as plain text, for terminals and for notebooks that cannot show the widget."""

from __future__ import annotations

import unicodedata
from typing import Any

from .advice import explain
from .memory import at_rest, nbytes_of
from .rows import STAGES, summary
from .specs import GPUS, RECIPES, Setup
from .words import amount, count, duration, exponential, in_unit, plain, say, size, trimmed


def width(text: str) -> int:
    """Columns of a terminal: Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def headline(setup: Setup) -> str:
    """One line with the four numbers: '(N=7.5e9, n=64): 111.8, 29.2, 15.5, 1.7 GiB per GPU at rest, ...'."""
    held = [nbytes_of(at_rest(setup, stage)) for stage in STAGES]
    numbers = ", ".join(amount(in_unit(nbytes, setup.unit)) for nbytes in held)
    chosen = {"N": setup.N, "n": setup.n, **setup.changed()}
    written = {name: f"{value!r}" for name, value in chosen.items()}
    written["N"] = exponential(setup.N, 15) if setup.N >= 1e5 else plain(setup.N)
    arguments = ", ".join(f"{name}={value}" for name, value in written.items())
    return f"({arguments}): {numbers} {setup.unit} per GPU at rest, stages 0 to {STAGES[-1]}"


def table(setup: Setup, rows: list[dict[str, Any]] | None = None) -> list[list[str]]:
    """The four stages as cells of text, the header first; ``rows``: the summary, if at hand."""
    language, unit = setup.language, setup.unit
    header = ["", say("table_rest", language), say("table_peak", language), say("table_wire", language)]
    header += [say("table_step", language), say("table_exposed", language), ""]
    lines = [header]
    for row in rows or summary(setup):
        relative = "" if row["relative"] is None else f" ({trimmed(row['relative'], 2)}×)"
        line = [say("stage_name", language, stage=row["stage"])]
        line += [size(row["rest"], unit), size(row["peak"], unit), size(row["wire_bytes"], unit) + relative]
        line += [duration(row["step"]), duration(row["exposed"])]
        line.append(say("table_fits" if row["fits_peak"] else "table_fits_not", language))
        lines.append(line)
    return lines


def as_text(setup: Setup, *, rows: list[dict[str, Any]] | None = None) -> str:
    """The four stages as a table, then the selected one in words; ``rows``: the summary, if at hand."""
    language = setup.language
    rows = rows or summary(setup)
    cells = table(setup, rows)
    columns = [max(width(line[column]) for line in cells) for column in range(len(cells[0]))]
    names = {"N": count(setup.N), "n": setup.n, "recipe": RECIPES[setup.recipe]["label"][language]}
    lines = [say("table_title", language, gpu=GPUS[setup.gpu]["label"], **names), ""]
    for line in cells:
        padded = [" " * (wide - width(cell)) + cell for wide, cell in zip(columns, line, strict=True)]
        lines.append("  ".join(padded).rstrip())
    said = explain(setup, rows=rows)
    lines += ["", said["headline"], said["costs"], ""]
    lines += [said[key] for key in ("formula", "moves", "fits")]
    return "\n".join(lines)
