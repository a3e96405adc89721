"""The picture as plain text, for terminals and for notebooks that cannot show the widget."""

from __future__ import annotations

import unicodedata
from typing import Any

from .advice import explain
from .compare import differences, system_key
from .memory import at_rest, nbytes_of
from .rows import STAGES, summary
from .specs import GPUS, RECIPES, Setup
from .words import amount, count, duration, exponential, in_unit, plain, say, scaled_size, size, trimmed


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
    if setup.shapes is not None:  # thousands of names say less than their number
        written["shapes"] = f"<{len(setup.shapes)} parameters>"
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
    title = say("table_title", language, gpu=GPUS[setup.gpu]["label"], **names)
    if setup.system != "paper":
        title += f", {say(f'system_{setup.system}', language)}"
    lines = [title, ""]
    for line in cells:
        padded = [" " * (wide - width(cell)) + cell for wide, cell in zip(columns, line, strict=True)]
        lines.append("  ".join(padded).rstrip())
    said = explain(setup, rows=rows)
    lines += ["", said["headline"], said["costs"], ""]
    lines += [said[key] for key in ("formula", "moves", "fits")]
    return "\n".join(lines + against(setup))


def against(setup: Setup) -> list[str]:
    """The lines that tell the system from the one it is compared with; none without that."""
    rows = differences(setup)
    if not rows or setup.compare is None:
        return []
    language = setup.language
    sides = (setup, setup.but(system=setup.compare))
    names = [say(f"system_{system_key(side, setup.stage)}", language) for side in sides]
    cells = [["", *names]]
    for row in rows:
        amounts = [amount_of(row["quantity"], row[side], setup) for side in ("first", "second")]
        cells.append([part_name(row, language), *amounts])
    columns = [max(width(line[column]) for line in cells) for column in range(3)]
    note = f"{say('stage_name', language, stage=setup.stage)} · {' / '.join(names)}"
    lines = ["", f"{say('differs', language)} · {note}", ""]
    for line, why in zip(cells, ["", *(row["why"] for row in rows)], strict=True):
        padded = [" " * (wide - width(cell)) + cell for wide, cell in zip(columns, line, strict=True)]
        lines.append("  ".join([*padded, why]).rstrip())
    return lines


def part_name(row: dict[str, Any], language: str) -> str:
    """What a row of the differences is about."""
    part, when = row["part"], row["when"]
    if part == when or when == "step":
        return say(f"table_{part}", language)
    state = say(part, language)
    return say("differs_on_top", language, state=state) if when == "peak" else state


def amount_of(quantity: str, value: float, setup: Setup) -> str:
    """A number of the differences with its unit."""
    if quantity == "bytes":
        return scaled_size(value, setup.unit) if value > 0.0 else "–"
    if quantity == "seconds":
        return duration(value)
    return plain(value) if quantity == "count" else count(value)
