"""What each GPU holds: a bar per stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..advice import explain
from ..memory import at_rest, on_top
from ..program import BUFFERS
from ..rows import STAGES, steps_of, summary
from ..specs import GPUS, Setup, cluster_of
from ..timeline import Step
from ..words import in_unit, say, scaled_size
from ..words import size as sized
from .look import Look, breadth, ink_on, look_of, whole
from .marks import (
    Canvas,
    Rows,
    altair,
    bare,
    finished,
    setting,
    stage_names,
    styled,
    swatch_style,
    texts,
    values,
)

if TYPE_CHECKING:
    from altair import LayerChart


def memory_chart(setup: Setup, *, theme: str = "light", size: str = "screen") -> LayerChart:
    """What each GPU holds: a bar per stage, solid at rest, pale on top at the peak, and the capacity.

    Raises ValueError for an unknown ``theme`` (light, dark, print) or ``size`` (screen, slide, paper),
    ImportError without Altair.
    """
    look = look_of(theme, size, setup.language)
    alt = altair()
    em, language, unit = look.em, setup.language, setup.unit
    steps = steps_of(setup)
    totals = summary(setup, steps)
    top = in_unit(max(row["peak"] for row in totals), unit)
    nbytes = cluster_of(setup).capacity
    capacity = in_unit(nbytes, unit)

    ends: Rows = []
    right = 0.0
    for row in totals:
        rest = sized(row["rest"], unit)
        peak = say("peak", language, peak=bare(row["peak"], unit))
        weight = "bold" if row["stage"] == setup.stage else "normal"
        below = look.soft if row["fits_peak"] else look.colour("limit")
        halo = look.band if row["stage"] == setup.stage else look.paper
        place = {"stage": row["stage"], "end": in_unit(row["peak"], unit), "halo": halo}
        ends.append(place | styled(rest, em, look.ink, weight=weight, dy=-0.62 * em))
        ends.append(place | styled(peak, look.small, below, dy=0.58 * em))
        right = max(right, 0.6 * em + breadth(rest, em, bold=True), 0.6 * em + breadth(peak, look.small))
    names, wide = stage_names(setup, look)
    left = wide + 0.8 * em
    left, right = whole(left), whole(right)
    width = look.width - left - right
    rows = bar_rows(setup, look, steps, width / top)
    figures = [
        {"stage": row["stage"], "start": row["start"]}
        | styled(row["figure"], look.small, ink_on(row["colour"]), weight="bold")
        for row in rows
        if row["figure"]
    ]
    held = say("holds", language, gpu=GPUS[setup.gpu]["label"], capacity=sized(nbytes, unit))
    seen = capacity <= top
    at = min(capacity / top, 1.0) * width
    label = limit_label(look, held if seen else f"{held} →", at, left, width, right)
    canvas = Canvas(look)
    lines = canvas.legend(bar_legend(setup, look, steps), -left, -2.3 * em, look.width)

    scale = alt.Scale(domain=[0, top], nice=False, zero=False)
    x = alt.X("start:Q", scale=scale, axis=None)
    at_end = alt.X("end:Q", scale=scale, axis=None)
    y = alt.Y("stage:O", scale=alt.Scale(domain=list(STAGES), padding=0), axis=None)
    layers = [
        *band(alt, look, setup.stage, left, right, y),
        bars(alt, setup, look, [row for row in rows if row["when"] == "rest"], x, y, 2.0 * em),
        bars(alt, setup, look, [row for row in rows if row["when"] == "peak"], x, y, 1.7 * em),
        texts(alt, look, figures, x=x, y=y, dx=0.45 * em),
        texts(alt, look, names, x=alt.value(-left), y=y),
    ]
    if seen:
        rule = alt.Chart(values([{"end": capacity, "text": held}])).mark_rule(
            color=look.colour("limit"),
            strokeWidth=0.115 * em,
            strokeDash=[0.3 * em, 0.23 * em],
            yOffset=-0.3 * em,
        )
        about = alt.Description("text:N")
        layers.append(rule.encode(x=at_end, y=alt.value(0), y2=alt.value("height"), description=about))
    layers += [
        texts(alt, look, ends, x=at_end, y=y, dx=0.6 * em, halo=True),
        texts(alt, look, ends, x=at_end, y=y, dx=0.6 * em),
        texts(alt, look, [{"end": min(capacity, top)} | label], x=at_end, y=alt.value(-0.9 * em)),
        *canvas.layers(alt),
    ]
    return finished(
        alt,
        look,
        layers,
        title=say("bars_title", language),
        notes=[setting(setup), say("chart_bars_note", language)],
        description=explain(setup, rows=totals)["headline"],
        box=(left, width, right),
        heights=((1.9 + 1.5 * lines) * em, 3.3 * em * len(STAGES), 0.0),
    )


def bar_rows(setup: Setup, look: Look, steps: list[Step], zoom: float) -> Rows:
    """A row per segment, in the setup's unit; ``zoom``: pixels per unit, for the figures that fit inside."""
    rows: Rows = []
    for stage, step in enumerate(steps):
        start = 0.0
        for when, held in (("rest", at_rest(setup, stage)), ("peak", on_top(step))):
            for state, nbytes in [(part.state, part.nbytes) for part in held if part.device == "gpu"]:
                value = in_unit(nbytes, setup.unit)
                end = start + value
                figure = bare(nbytes, setup.unit)
                needed = 0.9 * look.em + breadth(figure, look.small, bold=True)
                fits = when == "rest" and value * zoom > needed
                row = {"stage": stage, "state": state, "what": say(state, setup.language), "when": when}
                row |= {"moment": say(f"chart_{when}", setup.language), "start": start, "end": end}
                row |= {"nbytes": nbytes, "size": scaled_size(nbytes, setup.unit)}
                pale = when == "rest" and state in BUFFERS
                row |= {"colour": look.tint(state) if pale else look.colour(state)}
                row["figure"] = figure if fits and not pale else ""
                row["line"] = look.between[1] if value * zoom > 3.0 else 0.0
                rows.append(row)
                start = end
    return rows


def bars(alt: Any, setup: Setup, look: Look, rows: Rows, x: Any, y: Any, thick: float) -> Any:
    """The segments of one moment: rest or peak."""
    pale = bool(rows) and rows[0]["when"] == "peak"
    if pale:
        style = swatch_style(look, "dashed")
        edge: Any = alt.Stroke("colour:N", scale=None)
    else:
        style = {"strokeWidth": alt.expr("datum.line")}
        edge = alt.value(look.between[0])
    words = {"what": "chart_tip_what", "size": "chart_tip_size", "moment": "chart_tip_when"}
    tips = [alt.Tooltip(f"{name}:N", title=say(key, setup.language)) for name, key in words.items()]
    return (
        alt.Chart(values(rows))
        .mark_bar(size=thick, **style)
        .encode(
            x=x,
            x2="end:Q",
            y=y,
            fill=alt.Fill("colour:N", scale=None),
            stroke=edge,
            tooltip=tips,
            description=alt.Description("what:N"),
        )
    )


def bar_legend(setup: Setup, look: Look, steps: list[Step]) -> list[tuple[str, str, str]]:
    """States in drawing order, then what comes on top of them in any stage."""
    language = setup.language
    resting = dict.fromkeys(part.state for stage in STAGES for part in at_rest(setup, stage))
    above = dict.fromkeys(part.state for step in reversed(steps) for part in on_top(step))
    colours = {state: look.tint(state) if state in BUFFERS else look.colour(state) for state in resting}
    items = [(say(state, language), colour, "solid") for state, colour in colours.items()]
    return items + [(say(state, language), look.colour(state), "dashed") for state in above]


def band(alt: Any, look: Look, stage: int, left: float, right: float, y: Any) -> list[Any]:
    """Behind the selected stage, from edge to edge."""
    data = values([{"stage": stage}])
    style: dict[str, Any] = {"aria": False}
    out = 0.5 * look.em
    start, edge_end = -left - out, -left - out + 0.18 * look.em
    wash = alt.Chart(data).mark_rect(xOffset=start, x2Offset=right + out, color=look.band, **style)
    edge = alt.Chart(data).mark_rect(xOffset=start, x2Offset=edge_end, color=look.ink, **style)
    zero = alt.value(0)
    return [wash.encode(x=zero, x2=alt.value("width"), y=y), edge.encode(x=zero, x2=zero, y=y)]


def limit_label(look: Look, text: str, at: float, left: float, width: float, right: float) -> dict[str, Any]:
    """The label of a line at ``at`` pixels: to the right of it, or where there is room."""
    long = breadth(text, look.small, bold=True)
    if at + long <= width + right:
        align = "left"
    else:
        align = "right" if at + left >= long else "center"
    return styled(text, look.small, look.colour("limit"), weight="bold", align=align)
