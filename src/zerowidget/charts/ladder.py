"""Which shard sits where, on a handful of GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..memory import at_rest
from ..rows import STAGES, summary
from ..specs import Setup, total
from ..words import say, scaled_size
from ..words import size as sized
from .look import Look, breadth, look_of, whole, wrapped
from .marks import (
    Canvas,
    Rows,
    altair,
    finished,
    setting,
    stage_names,
    styled,
    symbols_of,
    texts,
    values,
)

if TYPE_CHECKING:
    from altair import LayerChart


def ladder_chart(setup: Setup, *, theme: str = "light", size: str = "screen") -> LayerChart:
    """Who holds what on a handful of GPUs: each stage cuts one more state.

    Drawn for n GPUs where they are few, else for four. In each cell the width is the N parameters and the
    height bytes of state per parameter, so a shard is an upright slice and area is memory.

    Raises ValueError for an unknown ``theme`` (light, dark, print) or ``size`` (screen, slide, paper),
    ImportError without Altair.
    """
    look = look_of(theme, size, setup.language)
    alt = altair()
    em, language, unit = look.em, setup.language, setup.unit
    few = setup.n if setup.n <= (4 if size == "paper" else 8) else 4
    names, wide = stage_names(setup, look)
    left = wide + 0.9 * em
    totals = summary(setup)
    formulas = [symbols_of(setup, stage) for stage in STAGES]
    room = 17.0 * em if size == "screen" else 9.5 * em
    right_lines = [wrapped(text, look.small, room) for text in formulas]
    sizes = [sized(row["rest"], unit) for row in totals]
    right = 0.9 * em + max(
        *[breadth(text, em, bold=True) for text in sizes],
        *[breadth(line, look.small) for lines in right_lines for line in lines],
        breadth(say("chart_at_n", language, n=setup.n), look.small),
    )
    left, right = whole(left), whole(right)
    width = look.width - left - right
    cell, pitch = (4.1, 5.0) if size == "slide" else (4.6, 5.6)
    rows, ghosts = ladder_rows(setup, look, few, cell / pitch)

    canvas = Canvas(look)
    kept = dict.fromkeys(part.state for part in at_rest(setup, 0))
    states = [(say(state, language), look.colour(state), "solid") for state in kept]
    lines = canvas.legend(states, -left, -2.4 * em, look.width)
    y_scale = alt.Scale(domain=[len(STAGES), 0], nice=False, zero=False)
    y = alt.Y("y:Q", scale=y_scale, axis=None)
    ends: Rows = []
    for row, text, formula_lines in zip(totals, sizes, right_lines, strict=True):
        weight = "bold" if row["stage"] == setup.stage else "normal"
        middle = {"y": row["stage"] + cell / pitch / 2.0}
        first = -0.62 * len(formula_lines) * em
        ends.append(middle | styled(text, em, look.ink, weight=weight, dy=first))
        for index, line in enumerate(formula_lines):
            below = first + (1.2 + 1.12 * index) * em
            ends.append(middle | styled(line, look.small, look.soft, dy=below))
    heads = [
        {"x": index + 0.5}
        | styled(say("chart_gpu", language, i=index), look.small, look.soft, align="center")
        for index in range(few)
    ]
    at_n = styled(say("chart_at_n", language, n=setup.n), look.small, look.soft)
    for name in names:
        name["y"] = name["stage"] + cell / pitch / 2.0
    x_scale = alt.Scale(domain=[0, few], nice=False, zero=False)
    x = alt.X("x:Q", scale=x_scale, axis=None)
    edge, line_width = look.between
    words = {"what": "chart_tip_what", "shard": "chart_tip_shard", "size": "chart_tip_size"}
    tips = [alt.Tooltip(f"{name}:N", title=say(key, language)) for name, key in words.items()]
    fill = alt.Fill("colour:N", scale=None)
    layers = [
        alt.Chart(values(ghosts))
        .mark_rect(fillOpacity=0.13, aria=False)
        .encode(x=x, x2="x2:Q", y=y, y2="y2:Q", fill=fill),
        alt.Chart(values(rows))
        .mark_rect(stroke=edge, strokeWidth=line_width / 2.0)
        .encode(
            x=x, x2="x2:Q", y=y, y2="y2:Q", fill=fill, tooltip=tips, description=alt.Description("what:N")
        ),
        texts(alt, look, names, x=alt.value(-left), y=y),
        texts(alt, look, ends, x=alt.value("width"), y=y, dx=0.9 * em),
        texts(alt, look, heads, x=x, y=alt.value(-0.9 * em)),
        texts(alt, look, [at_n], x=alt.value("width"), y=alt.value(-0.9 * em), dx=0.9 * em),
        *canvas.layers(alt),
    ]
    notes = [setting(setup), say("chart_ladder_note", language)]
    if few < setup.n:
        notes.append(say("chart_ladder_few", language, k=few, n=setup.n))
    return finished(
        alt,
        look,
        layers,
        title=say("chart_ladder_title", language),
        notes=notes,
        description=say("chart_ladder_title", language),
        box=(left, width, right),
        heights=((2.0 + 1.5 * lines) * em, pitch * em * len(STAGES), 0.0),
    )


def ladder_rows(setup: Setup, look: Look, few: int, tall: float) -> tuple[Rows, Rows]:
    """A row per stage, GPU and state: the slice it holds; and the whole states behind them.

    x counts GPUs, y stages; ``tall``: the part of a stage's pitch that its cells take.
    """
    small = setup.but(n=few)
    rows: Rows = []
    ghosts: Rows = []
    for stage in STAGES:
        held = [part for part in at_rest(small, stage) if part.nbytes > 0.0]
        all_bytes = total([part.nbytes * part.over for part in held])
        for gpu in range(few):
            y = float(stage)
            for part in held:
                state, share = part.state, 1.0 / part.over
                y2 = y + tall * part.nbytes * part.over / all_bytes
                start = gpu * share if share < 1.0 else 0.0
                cell = {"stage": stage, "gpu": gpu, "state": state, "y": y, "y2": y2}
                cell["colour"] = look.colour(state)
                row = cell | {"x": gpu + 0.05 + 0.9 * start, "x2": gpu + 0.05 + 0.9 * (start + share)}
                row |= {"what": say(state, setup.language), "nbytes": part.nbytes}
                row |= {"shard": f"{gpu + 1}/{few}" if share < 1.0 else "1"}
                rows.append(row | {"size": scaled_size(part.nbytes, setup.unit)})
                if share < 1.0:
                    ghosts.append(cell | {"x": gpu + 0.05, "x2": gpu + 0.95})
                y = y2
    return rows, ghosts
