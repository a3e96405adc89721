"""One training step as a score: compute, network, and memory under them."""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ..advice import MOVED, costs_text, moved, rings, some_stay_inside
from ..program import BUFFERS, Op
from ..rows import summary
from ..specs import Setup, transformer_of
from ..timeline import Live, Step, step_of
from ..words import count, duration, say, scaled_size
from .look import Look, breadth, ink_on, look_of, nice_above, ticks, whole, wrapped
from .marks import (
    Canvas,
    Rows,
    altair,
    axis_style,
    finished,
    setting,
    styled,
    swatch_style,
    texts,
    values,
)

if TYPE_CHECKING:
    from altair import LayerChart

COMPUTE_OPS = ("forward", "recompute", "backward", "optimizer")
NETWORK_OPS = tuple(MOVED)

MANY = 6000
"""More spans than this are thinned out: they are far narrower than a pixel, and Vega would take minutes."""


def timeline_chart(setup: Setup, *, theme: str = "light", size: str = "screen") -> LayerChart:
    """One step of the selected stage: compute, network, and what is held on top, over one time axis.

    Raises ValueError for an unknown ``theme`` (light, dark, print) or ``size`` (screen, slide, paper),
    ImportError without Altair.
    """
    look = look_of(theme, size, setup.language)
    alt = altair()
    em, language = look.em, setup.language
    step = step_of(setup, setup.stage)
    end = nice_above(step.seconds)
    scale, unit = (1.0, "s") if end >= 2.0 else (1e3, "ms") if end >= 2e-3 else (1e6, "µs")
    lanes = {"compute": (2.0 * em, 4.5 * em), "comm": (5.0 * em, 7.5 * em)}
    if any(span.op.stream == "replicas" for span in step.spans):
        lanes |= {"comm": (5.0 * em, 6.2 * em), "replicas": (6.35 * em, 7.5 * em)}
    floor, height = 11.6 * em, 12.0 * em

    most = step.peak.nbytes
    label = scaled_size(most, setup.unit) if most > 0.0 else ""
    names = {"lane_compute": 3.25 * em, "lane_comm": 6.25 * em, "lane_live": 10.5 * em}
    wide = max(breadth(say(name, language), em) for name in names)
    left = max(wide, breadth(label, look.small)) + 0.8 * em
    right = 0.5 * em + breadth("0000", look.small) / 2.0
    left, right = whole(left), whole(right)
    width = look.width - left - right
    zoom = width / end
    rows = span_rows(setup, look, step, scale, zoom, lanes)
    canvas = Canvas(look)
    for name, middle in names.items():
        canvas.write(-left, middle, say(name, language), em, look.ink)
    if most > 0.0:
        canvas.write(-0.5 * em, 8.5 * em, label, look.small, look.soft, align="right")
    else:
        empty = say("moves_alone" if setup.n == 1 else "live_none", language)
        lines = wrapped(empty, look.small, width)
        for index, line in enumerate(lines):
            middle = 10.5 * em + 1.25 * look.small * (index - (len(lines) - 1) / 2.0)
            canvas.write(0.5 * em, middle, line, look.small, look.soft)
    items = [
        (moved(op, language) if op in MOVED else say(op, language), look.colour(op), "solid")
        for op in (*COMPUTE_OPS, *NETWORK_OPS)
        if any(span.op.op == op and span.op.elements != 1.0 for span in step.spans)
    ]
    items.append((say("legend_exposed", language), look.colour("limit"), "pale"))
    lines_below = canvas.legend(items, -left, 0.0, look.width)
    shift = height + 2.9 * em + 1.5 * em * (lines_below - 1)
    for thing in (*canvas.swatches, *canvas.words[-len(items) :]):
        for key in ("y", "y2"):
            if key in thing:
                thing[key] += shift

    x_scale = alt.Scale(domain=[0, end * scale], nice=False, zero=False)
    axis = alt.Axis(
        values=ticks(end * scale, 4 if size == "paper" else 8),
        labelExpr=f"datum.value === 0 ? '0 {unit}' : format(datum.value, '.6~r')",
        labelOverlap=False,
        labelFlush=False,
        grid=False,
        title=None,
        zindex=1,
        **axis_style(look),
    )
    x = alt.X("start:Q", scale=x_scale, axis=axis)
    y_scale = alt.Scale(domain=[height, 0], nice=False, zero=False)
    y = alt.Y("y:Q", scale=y_scale, axis=None)
    tips = {"what": "chart_tip_what", "size": "chart_tip_size", "time": "chart_tip_time"}
    tips |= {"waits": "chart_tip_waits", "exposed": "chart_tip_exposed"}
    spans = (
        alt.Chart(values(rows))
        .mark_rect(x2Offset=alt.expr("-datum.gap"))
        .encode(
            x=x,
            x2="end:Q",
            y=y,
            y2="y2:Q",
            fill=alt.Fill("colour:N", scale=None),
            tooltip=[alt.Tooltip(f"{name}:N", title=say(key, language)) for name, key in tips.items()],
            description=alt.Description("what:N"),
        )
    )
    brackets, phases = phase_rows(setup, look, step, scale, zoom)
    layers = [
        shades(alt, look, step, scale, zoom, x, y),
        spans,
        *held_areas(alt, look, step, scale, most, (floor - 3.2 * em, floor), x, y_scale),
        alt.Chart(values(brackets))
        .mark_line(strokeWidth=0.08 * em, color=look.soft, strokeJoin="miter", aria=False)
        .encode(x=x, y=y, detail="run:N", order="order:Q"),
        texts(alt, look, phases, x=x, y=y),
        texts(alt, look, layer_numbers(look, rows, zoom / scale), x=x, y=y),
        *canvas.layers(alt),
    ]
    return finished(
        alt,
        look,
        layers,
        title=say("time_title", language, stage=setup.stage),
        notes=[time_note(setup, step), setting(setup)],
        description=costs_text(setup, summary(setup)[setup.stage]),
        box=(left, width, right),
        heights=(0.6 * em, height, 3.4 * em + 1.5 * em * (lines_below - 1)),
    )


def time_note(setup: Setup, step: Step) -> str:
    """Layers, tokens and the links, in one line."""
    tokens = transformer_of(setup).tokens
    values = {"layers": setup.layers, "tokens": str(int(tokens)) if tokens < 1e5 else count(tokens)}
    return say("time_note", setup.language, **values, rings=rings(setup, step))


def op_name(op: Op, language: str) -> str:
    """'all-gather · layer 19 · backward'."""
    parts = [say(op.op, language)]
    if op.group:
        kind, _, i = op.group.partition(" ")
        parts.append(" ".join(part for part in (say(kind, language, i=i), op.module) if part))
    if op.phase != op.op and op.op != "optimizer":
        parts.append(say(op.phase, language))
    return " · ".join(parts)


def span_rows(
    setup: Setup, look: Look, step: Step, scale: float, zoom: float, lanes: dict[str, tuple[float, float]]
) -> Rows:
    """A row per span; times in the axis's unit."""
    language, mixed = setup.language, some_stay_inside(step)
    rows: Rows = []
    for index, (span, exposed) in enumerate(zip(step.spans, step.exposed, strict=True)):
        op = span.op
        cause = None if span.cause is None else step.spans[span.cause].op
        y, y2 = lanes[op.stream]
        if mixed and op.stream != "compute" and not op.leaves:
            y, y2 = y + (y2 - y) / 4.0, y2 - (y2 - y) / 4.0
        wide = (span.end - span.start) * zoom
        row = {"index": index, "op": op.op, "group": op.group, "phase": op.phase, "stream": op.stream}
        row |= {"start": span.start * scale, "end": span.end * scale, "nbytes": op.nbytes}
        row |= {"y": y, "y2": y2, "colour": look.colour(op.op), "what": op_name(op, language)}
        row["gap"] = look.em / 13.0 if wide > 3.0 else 0.4 if wide > 1.5 else 0.0
        row["size"] = scaled_size(op.nbytes, setup.unit) if op.nbytes > 0.0 else "–"
        row["time"] = duration(op.seconds)
        row["waits"] = "–" if cause is None else op_name(cause, language)
        row["exposed"] = "–" if op.stream == "compute" else duration(exposed)
        rows.append(row)
    return coarse(rows, zoom / scale)


def coarse(rows: Rows, zoom: float) -> Rows:
    """Rows that can be told apart: of very many, the longest stands for all in its third of a pixel."""
    if len(rows) <= MANY:
        return rows
    kept: dict[tuple[float, int], dict[str, Any]] = {}
    longest: dict[tuple[float, int], float] = {}
    for row in rows:
        place = (row["y"], int(3.0 * row["start"] * zoom))
        start = kept[place]["start"] if place in kept else row["start"]
        end, long = row["end"], row["end"] - row["start"]
        if long > longest.get(place, -1.0):
            kept[place], longest[place] = row, long
        kept[place] = kept[place] | {"start": start, "end": end}
    return list(kept.values())


def layer_numbers(look: Look, rows: Rows, zoom: float) -> Rows:
    """Numbers of layers in their spans; where they do not fit, of every second, fifth, tenth, ... layer."""
    size = look.small * (1.0 if look.size != "screen" else 0.95)
    numbers: Rows = []
    for stream in ("compute", "comm"):
        mine: Rows = []
        for _, run in groupby((row for row in rows if row["stream"] == stream), lambda row: row["phase"]):
            passed = [row for row in run if row["group"].startswith("layer ")]
            if passed and (passed[-1]["end"] - passed[0]["start"]) * zoom > 2.5 * look.em:
                mine += passed
        steps = (1, 2, 5, 10, 20, 50, 100, 200, 500) if stream == "compute" else (1,)
        for every in steps:
            chosen: Rows = []
            until = -math.inf
            for row in mine:
                text = row["group"][6:]
                if int(text) % every or (every > 1 and row["op"] == "recompute"):
                    continue
                middle = (row["start"] + row["end"]) / 2.0
                half = breadth(text, size) / 2.0
                inside = (row["end"] - row["start"]) * zoom > 2.0 * half + 0.3 * look.em
                if middle * zoom - half < until and row["op"] != chosen[-1]["op"]:
                    continue  # where one pass ends and the next begins
                if middle * zoom - half < until or (every == 1 and not inside):
                    break
                until = middle * zoom + half + (0.3 if every == 1 else 0.8) * look.em
                place = {"op": row["op"], "start": middle, "y": (row["y"] + row["y2"]) / 2.0}
                chosen.append(place | styled(text, size, ink_on(row["colour"]), align="center"))
            else:
                numbers += chosen
                break
    return numbers


def shades(alt: Any, look: Look, step: Step, scale: float, zoom: float, x: Any, y: Any) -> Any:
    """Every moment in which compute stands still, through both lanes."""
    rows: Rows = []
    until = 0.0
    for span in [span for span in step.spans if span.op.stream == "compute"]:
        if span.start > until:
            rows.append({"start": until * scale, "end": span.start * scale})
        until = span.end
    if step.seconds > until:
        rows.append({"start": until * scale, "end": step.seconds * scale})
    for row in rows:
        row |= {"y": 1.75 * look.em, "y2": 7.75 * look.em}
    style = swatch_style(look, "pale")
    if look.theme == "print":  # an edge, for red may be grey
        style |= {"stroke": look.colour("limit"), "strokeWidth": 0.06 * look.em}
    mark = alt.Chart(values(coarse(rows, zoom / scale))).mark_rect(
        fill=look.colour("limit"), aria=False, **style
    )
    return mark.encode(x=x, x2="end:Q", y=y, y2="y2:Q")


def held_areas(
    alt: Any,
    look: Look,
    step: Step,
    scale: float,
    most: float,
    lane: tuple[float, float],
    x: Any,
    y_scale: Any,
) -> list[Any]:
    """What is held on top of rest, one kind on the other: bytes over time."""
    top, floor = lane
    moments = list(step.live)
    if not moments:
        return []
    if len(moments) > MANY:
        highest: dict[int, Live] = {}
        for moment in moments:
            place = int(moment.time / step.seconds * MANY / 2)
            if place not in highest or moment.nbytes > highest[place].nbytes:
                highest[place] = moment
        moments = list(highest.values())
    moments.append(moments[-1]._replace(time=step.seconds))
    layers = []
    bases = [0.0] * len(moments)
    for state in BUFFERS:
        if all(getattr(moment, state) == 0.0 for moment in moments):
            continue
        opacity = 0.4 if state == "gathered" else 0.55
        rows: Rows = []
        for index, moment in enumerate(moments):
            low = bases[index]
            high = bases[index] = low + getattr(moment, state)
            row = {"start": moment.time * scale, "nbytes": high - low, "state": state}
            row["y"] = floor - (floor - top) * high / most
            row["y2"] = floor - (floor - top) * low / most
            rows.append(row)
        mark = alt.Chart(values(rows)).mark_area(
            interpolate="step-after", fill=look.colour(state), fillOpacity=opacity, aria=False
        )
        layers.append(mark.encode(x=x, y=alt.Y("y:Q", scale=y_scale, axis=None), y2="y2:Q"))
    return layers


def phase_rows(setup: Setup, look: Look, step: Step, scale: float, zoom: float) -> tuple[Rows, Rows]:
    """Brackets over the passes, and their names where they fit."""
    em = look.em
    runs: list[tuple[str, float, float]] = []
    for span in step.spans:
        if span.op.stream != "compute" or span.op.phase == "step":
            continue
        if runs and runs[-1][0] == span.op.phase:
            runs[-1] = (span.op.phase, runs[-1][1], span.end)
        else:
            runs.append((span.op.phase, span.start, span.end))
    brackets: Rows = []
    names: Rows = []
    for run, (phase, start, end) in enumerate(runs):
        if (end - start) * zoom < 2.0:
            continue
        inset = em / 26.0 / zoom
        first, last = start + inset, end - 2.0 * inset
        corners = ((first, 1.55), (first, 1.15), (last, 1.15), (last, 1.55))
        for order, (time, y) in enumerate(corners):
            brackets.append({"run": run, "order": order, "start": time * scale, "y": y * em})
        text = say(phase, setup.language)
        if (end - start) * zoom > breadth(text, look.small):
            place = {"start": (start + end) / 2.0 * scale, "y": 0.5 * em}
            names.append(place | styled(text, look.small, look.soft, align="center"))
    return brackets, names
