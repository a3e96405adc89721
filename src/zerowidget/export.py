"""Files that outlive the notebook: charts as pictures, the live page, the rows as JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from shutil import copymode
from typing import Any

from .charts import ladder_chart, matrix_chart, memory_chart, scaling_chart, timeline_chart
from .charts.look import check_choice, look_of
from .rows import memory_rows, summary, tables, timeline_rows
from .specs import Setup
from .words import say

CHARTS: dict[str, Callable[..., Any]] = {
    "memory": memory_chart,
    "timeline": timeline_chart,
    "scaling": scaling_chart,
    "ladder": ladder_chart,
    "matrix": matrix_chart,
}
"""Every chart there is, by name."""

SUFFIXES = (".svg", ".png", ".pdf", ".html", ".vl.json", ".json", ".csv")
PIXELS = 2
"""Of a PNG, per pixel of the chart."""

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A cell of text that starts so would be run as a formula by a spreadsheet."""


def save(
    setup: Setup,
    path: str | os.PathLike[str],
    *,
    chart: str = "memory",
    theme: str = "light",
    size: str = "screen",
    steps: Sequence[Mapping[str, Any]] | None = None,
) -> Path:
    """Write a file of the kind its suffix names, and return its path.

    ``.svg .png .pdf``: the chart as a picture; ``.vl.json``: its Vega-Lite specification; ``.html``: the live
    page; ``.json``: setup and all rows; ``.csv``: the rows behind the chart. ``chart``: memory, timeline,
    scaling, ladder or matrix; ``theme``: light, dark or print; ``size``: screen, slide or paper; ``steps``: a
    story, for the live page.

    The file is complete or as it was before. Raises ValueError for an argument that is none of these, OSError
    where the file cannot be written, ImportError with the command that installs what is missing.
    """
    target, suffix = checked(path)
    check_choice("chart", chart, list(CHARTS))
    look = look_of(theme, size, setup.language)
    if steps and suffix != ".html":
        raise ValueError(f"steps must go with a path ending in .html, got {suffix}")
    if suffix in (".svg", ".png", ".pdf") and find_spec("vl_convert") is None:
        raise ImportError(say("export_missing", "en", suffix=suffix))
    if suffix == ".csv":
        content = as_csv(table_of(setup, chart)).encode()
    elif suffix == ".json":
        content = as_json(setup).encode()
    elif suffix == ".html":
        from .html import to_html

        content = to_html(setup, steps=steps).encode()
    else:
        drawn = CHARTS[chart](setup, theme=theme, size=size)
        if look.ground:
            drawn = drawn.properties(background=look.ground)
        content = as_picture(drawn, suffix)
    write(target, content)
    return Path(path)


def as_picture(chart: Any, suffix: str) -> bytes:
    """An Altair chart as the bytes of a file of that kind."""
    if suffix == ".vl.json":
        text: str = chart.to_json(indent=2)
        return text.encode()
    buffer: Any = io.StringIO() if suffix == ".svg" else io.BytesIO()
    chart.save(buffer, format=suffix[1:], scale_factor=PIXELS if suffix == ".png" else 1)
    content = buffer.getvalue()
    return content.encode() if isinstance(content, str) else bytes(content)


def as_json(setup: Setup) -> str:
    """The setup and all its rows, in bytes and seconds."""
    return json.dumps(tables(setup), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def table_of(setup: Setup, chart: str) -> list[dict[str, Any]]:
    """The rows that stand behind a chart."""
    if chart == "memory":
        return memory_rows(setup)
    return timeline_rows(setup) if chart == "timeline" else summary(setup)


def as_csv(rows: list[dict[str, Any]]) -> str:
    r"""Rows as RFC 4180 has them, safe to open in a spreadsheet; None is an empty cell.

    >>> as_csv([{"op": "=1+1", "nbytes": 2.0}])
    "op,nbytes\r\n'=1+1,2.0\r\n"
    """
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(rows[0])
    for row in rows:
        writer.writerow([harmless(cell) for cell in row.values()])
    return file.getvalue()


def harmless(cell: object) -> object:
    """A text that no spreadsheet takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def checked(path: str | os.PathLike[str]) -> tuple[Path, str]:
    """The file that is meant, links followed, and its kind; raises ValueError or OSError for none."""

    def refuse(kind: type[Exception], key: str, **values: object) -> Exception:
        return kind(say("error", "en", name="path", rule=say(key, "en", **values), value=repr(name)))

    name: Any = path
    if isinstance(path, os.PathLike):
        name = os.fspath(path)
    if not isinstance(name, str) or "\0" in name:
        raise refuse(ValueError, "export_rule_path")
    suffix = next((ending for ending in SUFFIXES if name.lower().endswith(ending)), None)
    if suffix is None:
        raise refuse(ValueError, "export_rule_suffix", others=", ".join(SUFFIXES[:-1]), last=SUFFIXES[-1])
    target = Path(os.path.realpath(name))
    if target.is_dir():
        raise refuse(IsADirectoryError, "export_rule_file")
    if not target.parent.is_dir():
        raise refuse(FileNotFoundError, "export_rule_folder")
    return target, suffix


def write(target: Path, content: bytes) -> None:
    """Put ``content`` into the file in one step: whoever looks sees the old file or the new one."""
    made = target.parent / f".zerowidget-{secrets.token_hex(8)}.tmp"
    try:
        try:
            with open(made, "xb") as file:  # made with the permissions that the umask leaves
                file.write(content)
            if target.exists():
                copymode(target, made)
            os.replace(made, target)
        finally:
            made.unlink(missing_ok=True)
    except OSError as error:
        rule = say("export_rule_writable", "en", reason=error.strerror or str(error))
        said = say("error", "en", name="path", rule=rule, value=repr(str(target)))
        raise type(error)(said) from None
