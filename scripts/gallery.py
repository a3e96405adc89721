"""Take the pictures of docs/gallery.md: `python scripts/gallery.py` runs its code.

A line `![...](images/name.png)` is the picture of what the block of code above it last made.
"""

import re
from pathlib import Path

import altair

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/gallery.md"
BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n\n(?:!\[[^\]]*\]\((?P<image>images/[^)]+)\))?", re.DOTALL)


def main() -> None:
    """Run every block in turn, in one namespace, and save its chart."""
    names: dict[str, object] = {}
    for block in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        exec(block["code"], names)
        if block["image"] is None:
            continue
        chart = names["chart"]
        assert isinstance(chart, altair.TopLevelMixin)
        if 'theme="dark"' in block["code"]:
            chart = chart.properties(background="#17191d")
        chart.save(PAGE.parent / block["image"], scale_factor=3 if "paper" in block["code"] else 2)


if __name__ == "__main__":
    main()
