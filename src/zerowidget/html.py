"""The live picture in a page of its own: one file, no kernel, no network.

A fragment is a ``<div>`` that holds the setup as JSON and, until the script has run or where none may, a
static picture and the table of numbers. The script travels compressed and is unpacked by the browser.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

from .advice import explain
from .picture import picture
from .rows import steps_of, summary
from .specs import FIELDS, Setup, shown, unknown
from .text import as_text, table
from .timeline import Step
from .words import say

SCRIPT = Path(__file__).parent / "static" / "standalone.js"

LOADER = """(() => {
  if (window.zerowidget) return window.zerowidget.boot();
  window.zerowidget = { boot() {} };
  const value = Object.fromEntries([..."DIGITS"].map((digit, i) => [digit, i]));
  const text = "CODE";
  const packed = new Uint8Array(text.length / 5 * 4);
  for (let i = 0, at = 0; i < text.length; ) {
    let word = 0;
    for (let k = 0; k < 5; k += 1) word = word * 85 + value[text[i++]];
    for (let k = 24; k >= 0; k -= 8) packed[at++] = word >>> k;
  }
  const bytes = new Blob([packed.subarray(0, LENGTH)]);
  const unpacked = bytes.stream().pipeThrough(new DecompressionStream("gzip"));
  new Response(unpacked).text().then((code) => {
    const script = document.createElement("script");
    script.textContent = code;
    document.head.append(script);
  });
})();"""
"""Unpacks the script once a page, however many fragments bring it."""

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%.()*+-;,=:?@^_`{|}~"
"""Base 85 as RFC 1924 has it, but for what HTML escapes: a sixteenth shorter than base 64."""

PAGE = """<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: {scheme}; }}
body {{ max-width: 1900px; margin: 12px auto; padding: 0 8px; }}
</style>
</head>
<body data-zerowidget-page>
{content}
</body>
</html>
"""

FALLBACK_STYLE = (
    "<style>.zerowidget-static{font:13px/1.4 system-ui,sans-serif}"
    ".zerowidget-static table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    ".zerowidget-static :is(td,th){padding:2px 10px;text-align:right;font-weight:400}"
    ".zerowidget-static svg{width:100%;max-width:960px;height:auto}</style>"
)


@lru_cache(maxsize=1)
def loader() -> str:
    """The script element that brings the front end."""
    try:
        code = SCRIPT.read_bytes()
    except FileNotFoundError:
        msg = f"the front end is not built: {SCRIPT} is missing; run `make build` or `node js/build.mjs`"
        raise FileNotFoundError(msg) from None
    packed = gzip.compress(code, 9, mtime=0)
    text = base64.b85encode(packed, pad=True).decode("ascii").translate(str.maketrans("&<>", ".,:"))
    script = LOADER.replace("LENGTH", str(len(packed))).replace("DIGITS", DIGITS).replace("CODE", text)
    return f"<script>{script}</script>"


def scheme_of(theme: str) -> str:
    """The CSS colour scheme of a theme; raises ValueError for any other."""
    schemes = {"auto": "light dark", "light": "light", "dark": "dark"}
    if theme not in schemes:
        raise ValueError(say("error", "en", name="theme", rule="auto, light or dark", value=shown(theme)))
    return schemes[theme]


def check_steps(setup: Setup, steps: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    """The steps of a story as stored, each checked on top of those before it.

    Raises TypeError for an unknown field, ValueError for a value that its field cannot take.
    """
    checked = []
    for step in steps or []:
        if not isinstance(step, Mapping):
            raise TypeError(f"steps must hold one mapping of fields per step, got {step!r}")
        for name in step:
            if name not in FIELDS:
                raise unknown(str(name))
        setup = setup.but(**step)
        checked.append({name: getattr(setup, name) for name in step})
    return checked


def numbers_table(setup: Setup, *, rows: list[dict[str, Any]] | None = None) -> str:
    """The four stages as an HTML table without styles, which survives sanitising."""
    header, *lines = table(setup, rows)
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def fragment(
    setup: Setup,
    *,
    steps: Sequence[Mapping[str, Any]] | None = None,
    script: bool = True,
    stages: list[Step] | None = None,
) -> str:
    """The live picture as HTML to put into any page.

    ``steps``: a story, each step the fields that change in it. ``script=False`` leaves out the front end,
    for a page that another fragment has brought it to already. ``stages``: the scheduled steps of all stages,
    if at hand.

    >>> fragment(Setup(), script=False).count("<script>")
    1
    """
    chosen = {"setup": setup.changed(), "steps": check_steps(setup, steps)}
    stages = stages or steps_of(setup)
    rows = summary(setup, stages)
    said = explain(setup, rows=rows)
    lines = "".join(f"<p>{escape(said[key])}</p>" for key in ("formula", "moves", "fits"))
    static = (
        f'{FALLBACK_STYLE}<div class="zerowidget-static"><h3>{escape(said["headline"])}</h3>'
        f"<p>{escape(said['costs'])}</p>{picture(setup, stages)}"
        f"{numbers_table(setup, rows=rows)}{lines}</div>"
    )
    data = escape(json.dumps(chosen, ensure_ascii=False, separators=(",", ":")), quote=True)
    boot = loader() if script else "<script>window.zerowidget?.boot()</script>"
    return f'<div data-zerowidget="{data}">{static}</div>{boot}'


def to_html(
    *setups: Setup,
    title: str | None = None,
    steps: Sequence[Mapping[str, Any]] | None = None,
    theme: str = "auto",
    stages: list[Step] | None = None,
) -> str:
    """A page of its own with the live picture of each setup; they share one script.

    ``steps``: a story for the first. ``theme``: auto (as the reader's system has it), light or dark.
    ``stages``: the scheduled steps of the first setup, if at hand. Raises TypeError without a setup.
    """
    if not setups:
        raise TypeError("to_html needs at least one setup")
    first, *others = setups
    parts = [fragment(first, steps=steps, stages=stages)]
    parts += [fragment(setup, script=False) for setup in others]
    name = str(title) if title is not None else say("title", first.language)
    words = {"language": first.language, "title": escape(name), "scheme": scheme_of(theme)}
    return PAGE.format(content="\n".join(parts), **words)


def frame(
    setup: Setup,
    *,
    height: int = 900,
    steps: Sequence[Mapping[str, Any]] | None = None,
    theme: str = "light",
    inside: str = "",
    stages: list[Step] | None = None,
) -> str:
    """The live page in an iframe that can do nothing but run its own script and offer downloads.

    ``height``: pixels; in a lower frame the picture shrinks. ``theme``: of what is around it, which a frame
    cannot see. ``inside``: HTML that browsers do not show, and that is left where a sanitiser takes the frame
    away.
    """
    page = escape(to_html(setup, steps=steps, theme=theme, stages=stages), quote=True)
    title = escape(say("title", setup.language), quote=True)
    return (
        f'<iframe title="{title}" srcdoc="{page}" sandbox="allow-scripts allow-downloads" '
        f'style="width:100%;height:{height}px;border:0">{inside}</iframe>'
    )


class Slide:
    """A cell's output that stays alive without a kernel: ``ex.slide()``."""

    def __init__(
        self,
        setup: Setup,
        *,
        height: Any,
        steps: Sequence[Mapping[str, Any]] | None = None,
        theme: str = "light",
    ) -> None:
        if not isinstance(height, int) or isinstance(height, bool) or not 100 <= height <= 10000:
            raise ValueError(f"height must be a whole number from 100 to 10000, got {height!r}")
        self.setup = setup
        stages = steps_of(setup)
        inside = numbers_table(setup, rows=summary(setup, stages))
        self.html = frame(setup, height=height, steps=steps, theme=theme, inside=inside, stages=stages)

    def __repr__(self) -> str:
        return f"<zerowidget slide, {len(self.html)} characters of HTML>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": as_text(self.setup)}
