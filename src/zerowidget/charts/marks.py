"""What all charts are put together from: texts, swatches, axes, a title, a ground."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..advice import formula
from ..rows import STAGES
from ..specs import GPUS, RECIPES, Setup
from ..words import count, say
from ..words import size as sized
from .look import Look, breadth, wrapped

if TYPE_CHECKING:
    from altair import LayerChart

Rows = list[dict[str, Any]]


def altair() -> Any:
    """Altair, imported now. Raises ImportError with the one command that installs it."""
    try:
        import altair
    except ImportError:
        raise ImportError(say("chart_missing", "en")) from None
    return altair


def values(rows: Rows) -> Any:
    """Rows as inline data: no pandas, none of its limits, and not validated one by one as ``alt.Data`` is."""
    return {"values": rows}


def styled(
    text: str,
    size: float,
    colour: str,
    *,
    weight: str = "normal",
    align: str = "left",
    dy: float = 0.0,
) -> dict[str, Any]:
    """The columns that ``texts`` reads."""
    return {"text": text, "size": size, "colour": colour, "weight": weight, "align": align, "dy": dy}


def texts(alt: Any, look: Look, rows: Rows, *, x: Any, y: Any, dx: float = 0.0, halo: bool = False) -> Any:
    """A layer of texts, each styled by its row; with ``halo``, what clears the ground around them."""
    style: dict[str, Any] = {"font": look.font} if look.font else {}
    if halo:
        style |= {"strokeWidth": 0.25 * look.em, "strokeJoin": "round", "aria": False}
    mark = alt.Chart(values(rows)).mark_text(
        align=alt.expr("datum.align"),
        baseline="middle",
        dx=dx,
        dy=alt.expr("datum.dy"),
        fontSize=alt.expr("datum.size"),
        fontWeight=alt.expr("datum.weight"),
        limit=0,
        **style,
    )
    fill = alt.Fill("colour:N", scale=None)
    if halo:
        return mark.encode(x=x, y=y, text="text:N", fill=fill, stroke=alt.Stroke("halo:N", scale=None))
    return mark.encode(x=x, y=y, text="text:N", fill=fill, description="text:N")


class Canvas:
    """Texts and swatches at pixel places; (0, 0) is the top left corner of the plot."""

    def __init__(self, look: Look) -> None:
        self.look = look
        self.words: Rows = []
        self.swatches: Rows = []

    def write(self, x: float, y: float, text: str, size: float, colour: str, **style: Any) -> None:
        """Put a text there, its middle at ``y``."""
        self.words.append({"x": x, "y": y} | styled(text, size, colour, **style))

    def swatch(self, x: float, y: float, side: float, colour: str, kind: str = "solid") -> None:
        """Put a square there, its middle at ``y``; ``kind``: solid, dashed (pale) or pale."""
        row = {"x": x, "x2": x + side, "y": y - side / 2.0, "y2": y + side / 2.0, "colour": colour}
        self.swatches.append(row | {"kind": kind})

    def legend(self, items: list[tuple[str, str, str]], x: float, y: float, width: float) -> int:
        """Put (text, colour, kind) side by side in lines that end at ``y``; returns how many lines."""
        look = self.look
        side, gap = 0.85 * look.em, look.em
        lines: list[list[tuple[float, str, str, str]]] = [[]]
        at = 0.0
        for text, colour, kind in items:
            wide = side + 0.45 * look.em + breadth(text, look.small)
            if lines[-1] and at + wide > width:
                lines.append([])
                at = 0.0
            lines[-1].append((at, text, colour, kind))
            at += wide + gap
        for index, line in enumerate(lines):
            middle = y - 1.5 * look.em * (len(lines) - 1 - index)
            for at, text, colour, kind in line:
                self.swatch(x + at, middle, side, colour, kind)
                self.write(x + at + side + 0.45 * look.em, middle, text, look.small, look.soft)
        return len(lines)

    def layers(self, alt: Any) -> list[Any]:
        """All of it as layers, in pixels whatever the scales of the chart are."""
        x = alt.X("x:Q", scale=None, axis=None)
        y = alt.Y("y:Q", scale=None, axis=None)
        made = []
        for kind in dict.fromkeys(row["kind"] for row in self.swatches):
            mark = alt.Chart(values([row for row in self.swatches if row["kind"] == kind]))
            mark = mark.mark_rect(aria=False, **swatch_style(self.look, kind))
            colours = {"fill": alt.Fill("colour:N", scale=None)}
            if kind == "dashed":
                colours["stroke"] = alt.Stroke("colour:N", scale=None)
            made.append(mark.encode(x=x, x2="x2:Q", y=y, y2="y2:Q", **colours))
        if self.words:
            made.append(texts(alt, self.look, self.words, x=x, y=y))
        return made


def swatch_style(look: Look, kind: str) -> dict[str, Any]:
    """Solid, pale, or pale with a dashed edge: Vega-Lite has no hatches."""
    if kind == "solid":
        return {}
    if kind == "pale":
        return {"fillOpacity": 0.4 if look.theme == "dark" else 0.2}
    dash = [0.19 * look.em, 0.13 * look.em]
    return {"fillOpacity": 0.28, "strokeWidth": 0.085 * look.em, "strokeDash": dash}


def finished(
    alt: Any,
    look: Look,
    layers: list[Any],
    *,
    title: str,
    notes: list[str],
    description: str,
    box: tuple[float, float, float],
    heights: tuple[float, float, float],
) -> LayerChart:
    """The layers on a ground, which also says how much room they take, and the title on it.

    ``box``: room left of the plot, its width, room right of it; ``heights``: above it, its height, below it.
    """
    left, width, right = box
    above, height, below = heights
    lines = [line for note in notes for line in wrapped(note, look.small, look.width)]
    large, leading, padding = 1.3 * look.em, 1.35 * look.small, 0.35 * look.em
    style: dict[str, Any] = {"font": look.font, "subtitleFont": look.font} if look.font else {}
    heads = wrapped(title, large, look.width, bold=True)
    tall = 1.2 * large * len(heads) + padding + leading * len(lines)
    # A title stands over the ground; where the ground is seen, in its upper part.
    upper = tall + look.margin if look.ground else 0.0
    heading = alt.TitleParams(
        heads,
        subtitle=lines,
        anchor="start",
        frame="group",
        dx=-left,
        offset=-upper,
        zindex=1,
        color=look.ink,
        fontSize=large,
        fontWeight="bold",
        lineHeight=1.2 * large,
        subtitleColor=look.soft,
        subtitleFontSize=look.small,
        subtitleLineHeight=leading,
        subtitlePadding=padding,
        limit=0,
        **style,
    )
    ground = alt.Chart(values([{}])).mark_rect(
        color=look.ground or "transparent",
        cornerRadius=0.5 * look.em,
        xOffset=-left - look.margin,
        x2Offset=right + look.margin,
        yOffset=-above - upper,
        y2Offset=below + look.margin,
        aria=False,
    )
    whole = {"x": alt.value(0), "x2": alt.value("width"), "y": alt.value(0), "y2": alt.value("height")}
    chart: LayerChart = alt.layer(
        ground.encode(**whole),
        *layers,
        view=alt.ViewBackground(stroke=None),
        width=width,
        height=height,
        title=heading,
        description=description,
    )
    return chart


def axis_style(look: Look) -> dict[str, Any]:
    """A quiet axis."""
    style: dict[str, Any] = {"labelFont": look.font, "titleFont": look.font} if look.font else {}
    style |= {"labelFontSize": look.small, "titleFontSize": look.small, "titleFontWeight": "normal"}
    style |= {"labelColor": look.soft, "titleColor": look.soft, "tickColor": look.soft}
    style |= {"domainColor": look.soft, "domainWidth": 0.08 * look.em, "tickWidth": 0.08 * look.em}
    return style | {"tickSize": 0.35 * look.em, "labelPadding": 0.25 * look.em}


def setting(setup: Setup) -> str:
    """What the chart is about, in one line."""
    label = RECIPES[setup.recipe]["label"][setup.language]
    named = {"N": count(setup.N), "n": setup.n, "gpu": GPUS[setup.gpu]["label"], "recipe": label}
    text = say("table_title", setup.language, **named)
    return text if setup.system == "paper" else f"{text}, {say(f'system_{setup.system}', setup.language)}"


def stage_names(setup: Setup, look: Look) -> tuple[Rows, float]:
    """'Stage 0' over 'data parallel', the selected one in bold, and the room they take."""
    rows: Rows = []
    wide = 0.0
    for stage in STAGES:
        name = say("stage_name", setup.language, stage=stage)
        beyond = say(f"stage_{stage}", setup.language)
        weight = "bold" if stage == setup.stage else "normal"
        up, down = -0.62 * look.em, 0.58 * look.em
        rows.append({"stage": stage} | styled(name, look.em, look.ink, weight=weight, dy=up))
        rows.append({"stage": stage} | styled(beyond, look.small, look.soft, dy=down))
        wide = max(wide, breadth(name, look.em, bold=True), breadth(beyond, look.small))
    return rows, wide


def symbols_of(setup: Setup, stage: int) -> str:
    """The left side of the formula: '2N + 2N + 12N/n'."""
    return formula(setup, stage).partition(" = ")[0]


def bare(nbytes: float, unit: str) -> str:
    """A size for a place that names the unit: '111.8'; with its own where that unit cannot say it: '4 B'."""
    return sized(nbytes, unit).removesuffix(f" {unit}")
