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
MANY, COARSE = 250, 8.0  # past so many spans, only one of a kind in so many pixels: pages stay small


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
    least = COARSE if len(step.spans) > MANY else 0.0  # pixels between two spans of a kind
    drawn: dict[str, float] = {}
    for span in step.spans:
        y = top_of_lanes + (0.0 if span.op.stream == "compute" else LANE + 4.0) + LANE / 2.0
        x = LEFT + (RIGHT - LEFT) * span.start / step.seconds
        wide = (RIGHT - LEFT) * (span.end - span.start) / step.seconds
        if x - drawn.get(span.op.op, -COARSE) < least:
            continue
        drawn[span.op.op] = x
        paths.setdefault(span.op.op, []).append(f"M{x:.1f} {y:g}h{max(0.3, wide - 0.4):.1f}")
    for op, moves in paths.items():
        colour = ENCODING["ops"][op]["light"]
        shapes.append(f'<path d="{"".join(moves)}" stroke="{colour}" stroke-width="{LANE:g}" fill="none"/>')
    height = top_of_lanes + 2.0 * LANE + 8.0
    label = escape(say("bars_title", setup.language), quote=True)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" role="img" '
        f'aria-label="{label}" font-size="13" fill="currentColor">{"".join(shapes)}</svg>'
    )


def _rect(x: float, y: float, width: float, height: float, colour: str, more: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{height:g}" fill="{colour}"{more}/>'


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:g}"{more}>{escape(text)}</text>'
