"""The stages as a table: what is sharded, held and sent, and when to choose it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..advice import explain, kind_of
from ..memory import at_rest
from ..rows import communication_rows, summary
from ..specs import Setup
from ..words import say, trimmed
from ..words import size as sized
from .look import Look, look_of, wrapped
from .marks import (
    Canvas,
    Rows,
    altair,
    finished,
    setting,
    symbols_of,
    values,
)

if TYPE_CHECKING:
    from altair import LayerChart

KINDS = {
    "parameters": ("parameters", "parameters"),
    "gradients": ("gradients", "gradients"),
    "optimizer": ("chart_optimizer", "master"),
}
"""Kinds of state: the word and the colour of each."""

NO_BREAK = "\u00a0"

HEADS = ("", "chart_matrix_sharded", "chart_matrix_rest", "chart_matrix_moves", "chart_matrix_choose")


def matrix_chart(setup: Setup, *, theme: str = "light", size: str = "screen") -> LayerChart:
    """A table: per stage what is sharded, bytes per GPU with their formula, communication, when to choose it.

    Raises ValueError for an unknown ``theme`` (light, dark, print) or ``size`` (screen, slide, paper),
    ImportError without Altair.
    """
    look = look_of(theme, size, setup.language)
    alt = altair()
    em = look.em
    shares = (0.195, 0.185, 0.19, 0.235, 0.195) if size == "paper" else (0.14, 0.17, 0.2, 0.25, 0.24)
    edges = [look.width * sum(shares[:index]) for index in range(len(shares))]
    rooms = [share * look.width - 0.8 * em for share in shares]
    totals = summary(setup)
    canvas = Canvas(look)
    titles = [
        wrapped(say(head, setup.language) if head else "", look.small, room)
        for head, room in zip(HEADS, rooms, strict=True)
    ]
    leading, deepest = 1.25 * look.small, max(len(lines) for lines in titles)
    for at, lines in zip(edges, titles, strict=True):
        for index, text in enumerate(lines):
            canvas.write(at, leading * (deepest - len(lines) + index + 0.5), text, look.small, look.soft)
    y = deepest * leading + 0.5 * em
    rules: Rows = []
    bands: Rows = []
    for row in totals:
        chosen = row["stage"] == setup.stage
        rules.append({"y": y, "colour": look.soft if row["stage"] == 0 else look.faint})
        cells = [
            [line for paragraph in cell for line in broken(look, paragraph, room)]
            for cell, room in zip(matrix_cells(setup, look, row), rooms, strict=True)
        ]
        for at, cell in zip(edges, cells, strict=True):
            place = y + 0.55 * em
            for line in cell:
                place += line.tall / 2.0
                if line.chip and line.first:
                    canvas.swatch(at, place, 0.7 * em, line.chip)
                weight = "bold" if chosen and line.lead else "normal"
                canvas.write(at + line.inset(em), place, line.text, line.size, line.colour, weight=weight)
                place += line.tall / 2.0
        tall = max(sum(line.tall for line in cell) for cell in cells) + 1.1 * em
        if chosen:
            bands.append({"y": y, "y2": y + tall})
        y += tall
    rules.append({"y": y, "colour": look.soft})

    pixel = alt.Y("y:Q", scale=None, axis=None)
    whole = {"x": alt.value(0), "x2": alt.value("width")}
    wash = alt.Chart(values(bands)).mark_rect(
        color=look.band, xOffset=-0.5 * em, x2Offset=0.5 * em, aria=False
    )
    lines_between = alt.Chart(values(rules)).mark_rule(strokeWidth=0.08 * em, aria=False)
    layers = [
        wash.encode(y=pixel, y2="y2:Q", **whole),
        lines_between.encode(y=pixel, stroke=alt.Stroke("colour:N", scale=None), **whole),
        *canvas.layers(alt),
    ]
    return finished(
        alt,
        look,
        layers,
        title=say("chart_matrix_title", setup.language),
        notes=[setting(setup)],
        description=explain(setup, rows=totals)["fits"],
        box=(0.0, look.width, 0.0),
        heights=(0.9 * em, y, 0.0),
    )


class Line(NamedTuple):
    """A text of a cell, before and after it is broken into lines."""

    text: str
    size: float
    colour: str
    lead: bool = False  # bold where the stage is selected
    chip: str = ""  # colour of the square before it
    first: bool = True

    @property
    def tall(self) -> float:
        """Height of the line."""
        return 1.3 * self.size

    def inset(self, em: float) -> float:
        """Room for the square."""
        return 1.1 * em if self.chip else 0.0


def broken(look: Look, line: Line, room: float) -> list[Line]:
    """A text in lines that fit the column."""
    parts = wrapped(line.text, line.size, room - line.inset(look.em), bold=line.lead)
    return [line._replace(text=text, first=index == 0) for index, text in enumerate(parts)]


def matrix_cells(setup: Setup, look: Look, row: dict[str, Any]) -> list[list[Line]]:
    """The five cells of a stage."""
    language, stage = setup.language, row["stage"]
    small, ink, soft = look.small, look.ink, look.soft
    shares = [part for part in at_rest(setup, stage) if part.nbytes > 0.0 and (part.over > 1 or part.falls)]
    cut = [kind for kind in KINDS if any(kind_of(part.state) == kind for part in shares)]
    sharded = [
        Line(say(KINDS[kind][0], language), small, ink, chip=look.colour(KINDS[kind][1])) for kind in cut
    ]
    held = [
        Line(sized(row["rest"], setup.unit), look.em, ink, lead=True),
        Line(symbols_of(setup, stage), small, soft),
        Line(say("peak", language, peak=sized(row["peak"], setup.unit)), small, soft),
    ]
    if not row["fits_peak"]:
        held.append(Line(say("table_fits_not", language), small, look.colour("limit")))
    moved = [Line(say("chart_matrix_alone", language), small, soft)]
    if row["relative"] is not None:
        volume, relative = f"{trimmed(row['volume'] / setup.N, 2)}N", trimmed(row["relative"], 2)
        told = say("chart_matrix_volume", language, volume=volume, relative=relative)
        moved = [Line(told, small, ink), Line(" + ".join(collectives_of(setup, stage)), small, soft)]
    nothing_to_shard = setup.n == 1 and stage > 0
    reason = "fit_alone" if nothing_to_shard else f"chart_choose_{stage}"
    return [
        [
            Line(say("stage_name", language, stage=stage), look.em, ink, lead=True),
            Line(say(f"stage_{stage}", language), small, soft),
        ],
        sharded or [Line(say("chart_matrix_nothing", language), small, soft)],
        held,
        moved,
        [Line(say(reason, language), small, ink)],
    ]


def collectives_of(setup: Setup, stage: int) -> list[str]:
    """What a step of the stage calls, over all N: '2 × all-gather' and 'reduce-scatter'."""
    times: dict[str, float] = {}
    for row in communication_rows(setup):
        if row["stage"] == stage:
            times[row["op"]] = times.get(row["op"], 0.0) + row["elements"] / setup.N
    parts = []
    for op, often in times.items():
        if trimmed(often, 2) == "0":
            continue
        many = "" if trimmed(often, 2) == "1" else f"{trimmed(often, 2)}{NO_BREAK}× "
        parts.append(many + say(op, setup.language))
    return parts
