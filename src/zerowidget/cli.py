"""``zerowidget 7.5e9 64``: the same numbers in a terminal."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any, NoReturn

from .advice import advice
from .rows import communication_rows, memory_rows, steps_of, summary
from .specs import FIELDS, Setup, options, parse_count, shown
from .text import as_text
from .words import plain, say


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes are one line and exit code 2."""

    def _get_formatter(self) -> argparse.HelpFormatter:
        # a width of its own: to ask for the terminal's takes longer than all the arithmetic
        return argparse.HelpFormatter(self.prog, width=100)

    def error(self, message: str) -> NoReturn:
        """Print ``message`` and leave."""
        self.exit(2, f"{self.prog}: {message}\n")


def number(text: str) -> float | str:
    """A count as people write it; what is no number goes on, for the field to refuse it by name."""
    try:
        return parse_count(text)
    except ValueError:
        return text


def rule_text(name: str) -> str:
    """The rule of a field, for ``--help``."""
    rule = FIELDS[name]
    default = "none" if rule["default"] is None else shown(rule["default"]).strip("'")
    if rule["type"] == "choice":
        return f"{', '.join(str(option) for option in options(name))} (default {default})"
    return f"{plain(rule['min'])} to {plain(rule['max'])} (default {default})"


def parser() -> Parser:
    """The command line: N and n by position, every other field of a setup as an option."""
    command = Parser(
        prog="zerowidget",
        description="What each ZeRO stage keeps on a GPU, what it communicates, and which one to choose.",
        epilog="example: zerowidget 7.5e9 64 --gpu A100-40GB --layers 36 --stage 2",
        allow_abbrev=False,
    )
    command.add_argument("N", type=number, help="parameters: 7.5e9, 7.5B, 350M")
    command.add_argument("n", type=number, help="GPUs, the data-parallel degree")
    for name, rule in FIELDS.items():
        if name in ("N", "n"):
            continue
        label = say("recompute_field" if name == "recompute" else name, "en")
        flag = f"--{name.replace('_', '-')}"
        if rule["type"] == "bool":
            command.add_argument(flag, action="store_true", help=label)
            continue
        kind: Any = number if rule["type"] != "choice" or name == "stage" else str
        command.add_argument(flag, type=kind, metavar="X", help=f"{label}: {rule_text(name)}")
    command.add_argument("--json", action="store_true", help="setup, summary, rows and advice as JSON")
    command.add_argument("--version", action="store_true", help="print the version and leave")
    return command


def as_json(setup: Setup) -> str:
    """Everything but the timeline, in bytes and seconds."""
    steps = steps_of(setup)
    rows = summary(setup, steps)
    content: dict[str, Any] = {
        "setup": {name: getattr(setup, name) for name in FIELDS},
        "summary": rows,
        "memory": memory_rows(setup, steps),
        "communication": communication_rows(setup),
        "advice": advice(setup, rows),
    }
    return json.dumps(content, ensure_ascii=False, indent=2)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    if "--version" in words:
        from importlib.metadata import version

        print(version("zerowidget"))
        return 0
    command = parser()
    given = vars(command.parse_args(words))
    json_wanted = given.pop("json")
    del given["version"]
    try:
        setup = Setup(**{name: value for name, value in given.items() if value is not None})
    except ValueError as error:
        command.error(str(error))
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal without × prints ?, not a traceback
    try:
        print(as_json(setup) if json_wanted else as_text(setup), flush=True)
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
