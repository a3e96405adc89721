"""Bytes per GPU against the number of GPUs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..advice import explain
from ..memory import at_rest, nbytes_of, on_top
from ..rows import STAGES
from ..specs import FIELDS, GPUS, Setup, cluster_of, resized
from ..timeline import step_of
from ..words import count, exponential, in_unit, say
from ..words import size as sized
from .look import Look, apart, breadth, look_of, whole
from .marks import (
    Canvas,
    Rows,
    altair,
    axis_style,
    bare,
    finished,
    setting,
    styled,
    texts,
    values,
)

if TYPE_CHECKING:
    from altair import LayerChart


def scaling_chart(setup: Setup, *, theme: str = "light", size: str = "screen") -> LayerChart:
    """Bytes per GPU against n, both logarithmic: a line per stage, its floor, the capacity, n marked.

    Lines are at rest; for the selected stage a second one is at the peak of its step, where buffers that do
    not fall with n are on top.

    n runs over the powers of two up to 1024 or 4n, whichever is more, as far as a setup can go.

    Raises ValueError for an unknown ``theme`` (light, dark, print) or ``size`` (screen, slide, paper),
    ImportError without Altair.
    """
    look = look_of(theme, size, setup.language)
    alt = altair()
    em, language, unit = look.em, setup.language, setup.unit
    counts = powers_to(max(1024, 4 * setup.n))
    colours = [look.soft, *[look.colour(state) for state in ("master", "gradients", "parameters")]]
    rows = scaling_rows(setup, counts, colours)
    last = {row["stage"]: row for row in rows}
    floors = floor_rows(setup, counts, colours)
    peaks = peak_rows(setup, counts, colours)
    capacity = cluster_of(setup).capacity
    heights = [row["rest"] for row in rows + peaks] + [in_unit(capacity, unit)]
    low, high = min(heights) * 0.8, max(heights) * 1.6
    tens = decades(low, high)
    left = max(breadth(tick_label(tick), look.small) for tick in tens) + 0.9 * em
    height = (21.0 if size == "paper" else 24.0) * em - (4.0 * em if size == "slide" else 0.0)

    def y_of(value: float) -> float:
        return height * (1.0 - math.log(value / low) / math.log(high / low))

    ends: list[tuple[float, str, str, str]] = []
    for stage in STAGES:
        floor = next((row for row in floors if row["stage"] == stage), None)
        if floor is None:
            under = say("chart_scaling_none", language)
        elif floor["flat"]:
            under = say("chart_scaling_whole", language)
        else:
            under = say("chart_scaling_floor", language, size=sized(floor["nbytes"], unit))
        name = say("stage_name", language, stage=stage)
        ends.append((y_of(last[stage]["rest"]), name, under, colours[stage]))
    if peaks:
        under = say("chart_scaling_floor", language, size=sized(peaks[-1]["floor"], unit))
        name = say("chart_scaling_peak", language, stage=setup.stage)
        ends.append((y_of(peaks[-1]["rest"]), name, under, colours[setup.stage]))
    held = say("chart_scaling_holds", language, capacity=sized(capacity, unit))
    ends.append((y_of(in_unit(capacity, unit)), GPUS[setup.gpu]["label"], held, look.colour("limit")))
    right = 0.8 * em + max(
        max(breadth(name, em, bold=True), breadth(under, look.small)) for _, name, under, _ in ends
    )
    left, right = whole(left), whole(right)
    width = look.width - left - right
    canvas = Canvas(look)
    places = apart([place for place, _, _, _ in ends], 2.5 * em, 0.6 * em, height - 0.6 * em)
    for place, (_, name, under, colour) in zip(places, ends, strict=True):
        canvas.write(width + 0.8 * em, place - 0.6 * em, name, em, readable(look, colour), weight="bold")
        canvas.write(width + 0.8 * em, place + 0.55 * em, under, look.small, look.soft)
    axis_text = say("chart_scaling_axis", language, unit=unit)
    canvas.write(-left, -1.1 * em, axis_text, look.small, look.soft)

    x_scale = alt.Scale(type="log", base=2, domain=[1, counts[-1]], nice=False)
    marked = [k for k in counts if k & (k - 1) == 0]
    most = 5 if size == "paper" else 7
    every = -(-len(marked) // most)
    x_axis = alt.Axis(
        values=marked[::every],
        labelExpr=f"{json.dumps({str(k): str(k) if k < 1e5 else count(k) for k in marked})}[datum.value]",
        title=say("n", language),
        grid=False,
        labelOverlap=False,
        zindex=1,
        **axis_style(look),
    )
    y_axis = alt.Axis(
        values=tens,
        labelExpr=f"{json.dumps({number_key(tick): tick_label(tick) for tick in tens})}[datum.value]",
        title=None,
        grid=False,
        labelOverlap=False,
        zindex=1,
        **axis_style(look),
    )
    x = alt.X("n:Q", scale=x_scale, axis=x_axis)
    y_scale = alt.Scale(type="log", domain=[low, high], nice=False)
    y = alt.Y("rest:Q", scale=y_scale, axis=y_axis)
    stroke = alt.Stroke("colour:N", scale=None)
    quiet: dict[str, Any] = {"aria": False}
    limit = {"strokeDash": [0.3 * em, 0.23 * em], "strokeWidth": 0.115 * em}
    dash: dict[str, Any] = {"strokeDash": [0.15 * em, 0.25 * em], "strokeWidth": 0.1 * em}
    words = {"name": "stage", "gpus": "n", "size": "chart_tip_size"}
    tips = [alt.Tooltip(f"{name}:N", title=say(key, language)) for name, key in words.items()]
    here = [row for row in rows if row["n"] == setup.n]
    across = {"x": alt.value(0), "x2": alt.value("width")}
    bends = setup.system == "fsdp2" and setup.shard_size is not None  # a smooth line would miss the corner
    lines = alt.Chart(values(rows)).mark_line(
        strokeWidth=0.15 * em, strokeJoin="round", interpolate="linear" if bends else "monotone"
    )
    layers = [
        alt.Chart(values([{"n": setup.n}]))
        .mark_rule(color=look.faint, strokeWidth=0.1 * em, **quiet)
        .encode(x=x, y=alt.value(-0.3 * em), y2=alt.value("height")),
        alt.Chart(values([{"rest": in_unit(capacity, unit)}]))
        .mark_rule(color=look.colour("limit"), **limit, **quiet)
        .encode(y=y, **across),
        alt.Chart(values([row for row in floors if not row["flat"]]))
        .mark_rule(**dash, **quiet)
        .encode(y=y, stroke=stroke, **across),
        lines.encode(x=x, y=y, stroke=stroke, detail="stage:O"),
        alt.Chart(values(peaks[-1:]))
        .mark_rule(**dash, **quiet)
        .encode(y=alt.Y("under:Q", scale=y_scale, axis=y_axis), stroke=stroke, **across),
        alt.Chart(values(peaks))
        .mark_line(strokeWidth=0.19 * em, strokeDash=[0.05 * em, 0.32 * em], strokeCap="round", **quiet)
        .encode(x=x, y=y, stroke=stroke),
        alt.Chart(values(rows + peaks))
        .mark_point(filled=True, opacity=0, size=(0.9 * em) ** 2)
        .encode(x=x, y=y, tooltip=tips, description=alt.Description("size:N")),
        alt.Chart(values(here))
        .mark_point(filled=True, opacity=1, size=(0.6 * em) ** 2, stroke=look.paper, **quiet)
        .encode(x=x, y=y, fill=alt.Fill("colour:N", scale=None)),
    ]
    labels = number_labels(setup, look, here, y_of, height)
    at_n = width * math.log(setup.n) / math.log(counts[-1])
    flush = at_n + 0.5 * em + max(breadth(label["text"], look.small, bold=True) for label in labels) > width
    for label in labels:
        label["align"] = "right" if flush else "left"
    dx = (-0.5 if flush else 0.5) * em
    pixel_y = alt.Y("y:Q", scale=None, axis=None)
    here_text = say("chart_at_n", language, n=setup.n)
    mark = styled(here_text, look.small, look.ink, weight="bold", align="center")
    clear = breadth(axis_text, look.small) - left + 0.8 * em  # of the name of the axis beside it
    shift = max(0.0, clear + breadth(here_text, look.small, bold=True) / 2.0 - at_n)
    layers += [
        texts(alt, look, labels, x=x, y=pixel_y, dx=dx, halo=True),
        texts(alt, look, labels, x=x, y=pixel_y, dx=dx),
        texts(alt, look, [{"n": setup.n} | mark], x=x, y=alt.value(-1.1 * em), dx=shift),
        *canvas.layers(alt),
    ]
    return finished(
        alt,
        look,
        layers,
        title=say("chart_scaling_title", language),
        notes=[setting(setup), say("chart_scaling_note", language)],
        description=explain(setup)["headline"],
        box=(left, width, right),
        heights=(2.3 * em, height, 3.6 * em),
    )


def powers_to(most: int) -> list[int]:
    """1, 2, 4, ... until ``most`` is reached, or the largest n that a setup takes."""
    limit = int(FIELDS["n"]["max"])
    counts = [1]
    while counts[-1] < most and counts[-1] * 2 <= limit:
        counts.append(counts[-1] * 2)
    if counts[-1] < most:
        counts.append(limit)
    return counts


def decades(low: float, high: float) -> list[float]:
    """Powers of ten in between, every second or third of them where there are many."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    every = max(1, -(-(last - first) // 6))
    return [float(f"1e{power}") for power in range(first, last + 1, every)]


def tick_label(tick: float) -> str:
    """A power of ten as an axis shows it."""
    return f"{tick:.0f}" if 1.0 <= tick < 1e6 else f"{tick:g}" if 1e-3 <= tick < 1.0 else exponential(tick, 0)


def number_key(value: float) -> str:
    """A number as JavaScript writes it, to look it up by."""
    if 1e-6 <= value < 1e21:
        return f"{value:.0f}" if value >= 1.0 else f"{value:.{round(-math.log10(value))}f}"
    power = round(math.log10(value))
    return f"1e{power:+d}"


def readable(look: Look, colour: str) -> str:
    """A colour for bold type: the encoding's own on a dark ground, a darker shade of it on a light one."""
    if look.theme == "dark" or colour == look.colour("limit"):
        return colour
    parts = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(part * 0.72):02x}" for part in parts)


def scaling_rows(setup: Setup, counts: list[int], colours: list[str]) -> Rows:
    """A row per stage and n: bytes per GPU at rest, in the setup's unit."""
    rows: Rows = []
    for stage in STAGES:
        for n in sorted({*counts, setup.n, min(setup.shard_size or 1, counts[-1])}):
            nbytes = nbytes_of(at_rest(resized(setup, n, stage), stage))
            row: dict[str, Any] = {"stage": stage, "n": n, "rest": in_unit(nbytes, setup.unit)}
            row["nbytes"] = nbytes
            row |= {"name": say("stage_name", setup.language, stage=stage), "gpus": str(n)}
            rows.append(row | {"size": sized(nbytes, setup.unit), "colour": colours[stage]})
    return rows


def floor_rows(setup: Setup, counts: list[int], colours: list[str]) -> Rows:
    """Per stage what does not fall with n, if anything; ``flat``: it is all there is, whatever n.

    Where shards are over fewer ranks than there are, nothing falls any more.
    """
    rows: Rows = []
    for stage in STAGES:
        many = resized(setup, counts[-1], stage)
        falls = many.n == counts[-1]
        nbytes = nbytes_of([part for part in at_rest(many, stage) if not (falls and part.falls)])
        if nbytes > 0.0:
            row: dict[str, Any] = {"stage": stage, "rest": in_unit(nbytes, setup.unit), "nbytes": nbytes}
            flat = nbytes == nbytes_of(at_rest(resized(setup, 1, stage), stage))
            rows.append(row | {"flat": flat, "colour": colours[stage]})
    return rows


def peak_rows(setup: Setup, counts: list[int], colours: list[str]) -> Rows:
    """The selected stage at the peak of its step, a row per n; nothing where nothing comes on top of rest.

    ``floor``: what of it does not fall with n, in bytes. An n that the sizes of shards do not divide is left
    out.
    """
    rows: Rows = []
    stage, colour = setup.stage, colours[setup.stage]
    for n in sorted({*counts, setup.n}):
        try:
            sized_setup = setup.but(n=n)
        except ValueError:
            continue
        held = [*at_rest(sized_setup, stage), *on_top(step_of(sized_setup, stage))]
        nbytes = nbytes_of(held)
        floor = nbytes_of([part for part in held if not part.falls])
        row: dict[str, Any] = {"stage": stage, "n": n, "rest": in_unit(nbytes, setup.unit), "floor": floor}
        row |= {"name": say("chart_scaling_peak", setup.language, stage=stage), "gpus": str(n)}
        row["under"] = in_unit(floor, setup.unit)
        rows.append(row | {"size": sized(nbytes, setup.unit), "colour": colour})
    return rows if on_top(step_of(setup, stage)) else []


def number_labels(
    setup: Setup, look: Look, here: Rows, y_of: Callable[[float], float], height: float
) -> Rows:
    """The numbers at the current n, above their points and apart from each other; equal ones once."""
    unique = {bare(row["nbytes"], setup.unit): row for row in here}
    wanted = [y_of(row["rest"]) - 0.75 * look.em for row in unique.values()]
    places = apart(wanted, 1.15 * look.em, 0.3 * look.em, height - 0.6 * look.em)
    labels: Rows = []
    for place, (text, row) in zip(places, unique.items(), strict=True):
        weight = "bold" if row["stage"] == setup.stage else "normal"
        labels.append(
            {"n": setup.n, "y": place, "halo": look.paper} | styled(text, look.small, look.ink, weight=weight)
        )
    return labels
