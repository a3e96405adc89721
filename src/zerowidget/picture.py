"""The picture without a script: bars and timeline as a small SVG, for pages that may not run one."""

from __future__ import annotations

from html import escape

from .data import load
from .memory import at_rest, nbytes_of, on_top
from .rows import STAGES, steps_of
from .specs import Setup
from .timeline import Step
from .words import say, size

ENCODING = load("encoding")
WIDTH, LEFT, RIGHT = 960.0, 90.0, 860.0
ROW, BAR = 34.0, 22.0
LANE = 28.0
MANY, CELL = 250, 3.0  # past so many spans, lanes are drawn in cells of so many pixels: pages stay small


def picture(setup: Setup, steps: list[Step] | None = None) -> str:
    """The four bars, solid at rest and pale on top, and under them the selected step's two lanes."""
    steps = steps or steps_of(setup)
    shapes: list[str] = []
    held = [(at_rest(setup, stage), on_top(steps[stage])) for stage in STAGES]
    scale = max(nbytes_of([*rest, *top]) for rest, top in held)
    for stage, (rest, top) in zip(STAGES, held, strict=True):
        y = stage * ROW + 4.0
        x = LEFT
        for index, part in enumerate([*rest, *top]):
            if part.device != "gpu":
                continue
            wide = (RIGHT - LEFT) * part.nbytes / scale
            pale = ' opacity="0.45"' if index >= len(rest) else ""
            shapes.append(_rect(x, y, wide, BAR, ENCODING["states"][part.state]["light"], pale))
            x += wide
        weight = ' font-weight="700"' if stage == setup.stage else ""
        name = say("stage_name", setup.language, stage=stage)
        total = size(nbytes_of(rest), setup.unit)
        shapes.append(_text(0.0, y + 16.0, name, weight))
        shapes.append(_text(x + 6.0, y + 16.0, total, weight))
    step = steps[setup.stage]
    top_of_lanes = len(STAGES) * ROW + 12.0
    for lane, key in enumerate(("lane_compute", "lane_comm")):
        shapes.append(_text(0.0, top_of_lanes + lane * (LANE + 4.0) + 18.0, say(key, setup.language)))
    paths: dict[str, list[str]] = {}
    for op, lane, x, wide in _strokes(step):
        y = top_of_lanes + lane * (LANE + 4.0) + LANE / 2.0
        paths.setdefault(op, []).append(f"M{LEFT + x:.1f} {y:g}h{wide:.1f}")
    for op, moves in paths.items():
        colour = ENCODING["ops"][op]["light"]
        shapes.append(f'<path d="{"".join(moves)}" stroke="{colour}" stroke-width="{LANE:g}" fill="none"/>')
    height = top_of_lanes + 2.0 * LANE + 8.0
    label = escape(say("bars_title", setup.language), quote=True)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" role="img" '
        f'aria-label="{label}" font-size="13" fill="currentColor">{"".join(shapes)}</svg>'
    )


def _strokes(step: Step) -> list[tuple[str, int, float, float]]:
    """What the lanes show: op, lane, start and width in pixels. Of many spans, what fills each cell most."""
    strokes: list[tuple[str, int, float, float]] = []
    cells: dict[tuple[int, int], dict[str, float]] = {}
    for span in step.spans:
        lane = 0 if span.op.stream == "compute" else 1
        start, end = ((RIGHT - LEFT) * time / step.seconds for time in (span.start, span.end))
        if len(step.spans) <= MANY:
            strokes.append((span.op.op, lane, start, max(0.3, end - start - 0.4)))
            continue
        for cell in range(int(start / CELL), int(end / CELL) + 1):
            shares = cells.setdefault((lane, cell), {})
            share = min(end, (cell + 1) * CELL) - max(start, cell * CELL)
            shares[span.op.op] = shares.get(span.op.op, 0.0) + share
    for (lane, cell), shares in sorted(cells.items()):
        op = max(shares, key=lambda name: shares[name])
        if shares[op] < CELL - sum(shares.values()):
            continue  # it is empty for the most part
        if strokes and strokes[-1][:2] == (op, lane) and sum(strokes[-1][2:]) == cell * CELL:
            strokes[-1] = (op, lane, strokes[-1][2], strokes[-1][3] + CELL)
        else:
            strokes.append((op, lane, cell * CELL, CELL))
    return strokes


def _rect(x: float, y: float, width: float, height: float, colour: str, more: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{height:g}" fill="{colour}"{more}/>'


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:g}"{more}>{escape(text)}</text>'
