"""Build a reveal.js deck with live explorers: one HTML file that needs no network.

    python examples/slides/build.py deck.html

reveal.js comes from node_modules (`npm ci`); any copy of it will do.
"""

import sys
from pathlib import Path

from zerowidget import Setup
from zerowidget.html import fragment, frame

REVEAL = Path(__file__).parents[2] / "node_modules/reveal.js/dist"
STORY = [{"stage": 1}, {"stage": 2}, {"stage": 3, "prefetch": 0}, {"prefetch": 1}, {"prefetch": 4}]

SLIDES = f"""
<section><h2>What does ZeRO do to every GPU?</h2><p>7.5 billion parameters, 64 GPUs</p></section>
<section>{fragment(Setup(N=7.5e9, n=64, stage=0), steps=STORY)}</section>
<section><h3>On a slow network</h3>
{fragment(Setup(N=7.5e9, n=64, link="Ethernet-100G"), script=False)}</section>
<section>{frame(Setup(N=70e9, n=512, layers=80, hidden=8192), height=740, theme="light")}</section>
<section><h2>Questions?</h2></section>
"""

DECK = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>ZeRO in a deck</title>
<style>{css}</style>
<style>
body {{ background: #fff; color: #1b1d21; color-scheme: light; font-family: system-ui, sans-serif; }}
.reveal h2 {{ font-size: 2.2em; }}
.reveal .slides section {{ text-align: left; }}
</style>
</head>
<body>
<div class="reveal"><div class="slides">{slides}</div></div>
<script>{script}</script>
<script>
Reveal.initialize({{
  width: 1200, height: 760, margin: 0.02, hash: false, transition: "none", controls: false
}});
</script>
</body>
</html>
"""


def main(path: str) -> None:
    """Write the deck."""
    css = (REVEAL / "reveal.css").read_text(encoding="utf-8")
    script = (REVEAL / "reveal.js").read_text(encoding="utf-8").replace("</script", "<\\/script")
    Path(path).write_text(DECK.format(css=css, script=script, slides=SLIDES), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
