"""``zerowidget 7.5e9 64``: the same numbers in a terminal."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any, NoReturn

from .advice import advice
from .rows import tables
from .specs import FIELDS, Setup, UnknownField, options, parse_count, shown
from .text import as_text
from .words import field_name, plain


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes are one line and exit code 2."""

    def _get_formatter(self) -> argparse.HelpFormatter:
        # a width of its own: to ask for the terminal's takes longer than all the arithmetic
        return argparse.RawDescriptionHelpFormatter(self.prog, width=100)

    def error(self, message: str) -> NoReturn:
        """Print ``message`` and leave."""
        self.exit(2, f"{self.prog}: {message}\n")


def counted(text: str) -> Any:
    """The count of parameters, or nothing where the shapes of a model say it."""
    return UNSET if text == "-" else number(text)


def number(text: str) -> float:
    """A count as people write it."""
    try:
        return parse_count(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


UNSET = object()
"""An option that was not given; None is a value of some fields."""


def typed(field: str) -> Any:
    """What turns an option's text into a value of the field."""
    rule = FIELDS[field]

    def value(text: str) -> Any:
        word = text.strip().lower()
        if word == "none" and rule.get("optional"):
            return None
        if rule["type"] in ("bool", "reshard") and word in ("true", "false"):
            return word == "true"
        if rule["type"] == "bool":
            raise argparse.ArgumentTypeError(f"true or false, got {shown(text)}")
        return number(text) if rule["type"] != "choice" or field == "stage" else text

    return value


MAX_FILE = 2**20


def shapes_in(path: str) -> Any:
    """The names and shapes of a JSON file."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE + 1)
        if len(content) > MAX_FILE:
            raise argparse.ArgumentTypeError(f"a file of at most {MAX_FILE} bytes, got {shown(path)}")
        # pairs, for a name that stands twice is an error
        return json.loads(content, object_pairs_hook=list) or {}
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise argparse.ArgumentTypeError(f"a JSON file, got {shown(path)}") from None


def rule_text(name: str) -> str:
    """The rule of a field, for ``--help``."""
    rule = FIELDS[name]
    default = "none" if rule["default"] is None else shown(rule["default"]).strip("'")
    if rule["type"] == "choice":
        return f"{', '.join(str(option) for option in options(name))} (default {default})"
    if rule["type"] in ("reshard", "bool"):
        ranks = " or a number of ranks" if rule["type"] == "reshard" else ""
        return f"true, false{ranks} (default {default})"
    return f"{plain(rule['min'])} to {plain(rule['max'])} (default {default})"


def parser(name: str) -> Parser:
    """The command line: N and n by position, every other field as an option, then the command's own."""
    command = Parser(
        prog=f"zerowidget {name}".strip(),
        description=COMMANDS[name][0],
        epilog=EPILOG if not name else None,
        allow_abbrev=False,
    )
    command.add_argument("N", type=counted, help="parameters: 7.5e9, 7.5B, 350M, or - with --shapes")
    command.add_argument("n", type=number, help="GPUs, the data-parallel degree")
    for field, rule in FIELDS.items():
        if field in ("N", "n"):
            continue
        if field == "shapes":
            told = "JSON file of names and shapes in the order of the model"
            command.add_argument("--shapes", type=shapes_in, default=UNSET, metavar="FILE", help=told)
            continue
        label = field_name(field, "en")
        flag = f"--{field.replace('_', '-')}"
        if rule["type"] == "bool" and rule["default"] is False:
            command.add_argument(flag, action="store_const", const=True, default=UNSET, help=label)
            continue
        command.add_argument(
            flag, type=typed(field), default=UNSET, metavar="X", help=f"{label}: {rule_text(field)}"
        )
    if name == "save":
        command.add_argument(
            "-o", "--output", metavar="FILE", required=True, help="file; its suffix says what to write"
        )
        command.add_argument(
            "--chart",
            metavar="X",
            default="memory",
            help="memory, timeline, scaling, ladder or matrix (default memory)",
        )
        command.add_argument(
            "--theme", metavar="X", default="light", help="light, dark or print (default light)"
        )
        command.add_argument(
            "--size", metavar="X", default="screen", help="screen, slide or paper (default screen)"
        )
    elif name == "embed":
        command.add_argument("--page", action="store_true", help="a whole page instead of a fragment of one")
        command.add_argument(
            "--no-script", action="store_true", help="for a page that holds another fragment already"
        )
        command.add_argument(
            "--steps", metavar="JSON", help='a story: \'[{"stage": 0}, {"stage": 1, "n": 64}]\''
        )
    else:
        command.add_argument("--json", action="store_true", help="setup, summary, rows and advice as JSON")
        command.add_argument("--version", action="store_true", help="print the version and leave")
    return command


def print_numbers(setup: Setup, given: dict[str, Any]) -> str:
    """The default command."""
    return as_json(setup) if given["json"] else as_text(setup)


def print_embed(setup: Setup, given: dict[str, Any]) -> str:
    """``zerowidget embed``: the live picture as HTML."""
    from .html import fragment, to_html

    if given["page"] and given["no_script"]:
        raise ValueError("no-script is for fragments: a page needs its script")
    try:
        steps = json.loads(given["steps"] or "[]")
    except (json.JSONDecodeError, RecursionError):
        steps = None
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        value = shown(given["steps"])
        raise ValueError(f"steps must be a JSON list of objects with the fields that change, got {value}")
    if given["page"]:
        return to_html(setup, steps=steps)
    return fragment(setup, steps=steps, script=not given["no_script"])


def save_file(setup: Setup, given: dict[str, Any]) -> str:
    """``zerowidget save``: the picture or its numbers as a file; says where it is."""
    from .export import save

    return str(save(setup, given["output"], chart=given["chart"], theme=given["theme"], size=given["size"]))


COMMANDS = {
    "": (
        "What each ZeRO stage keeps on a GPU, what it communicates, and which one to choose.",
        print_numbers,
    ),
    "embed": ("Print the live picture as HTML to include in a page or a deck of slides.", print_embed),
    "save": ("Write a chart, the live page or the rows: .svg .png .pdf .html .vl.json .json .csv", save_file),
}
EPILOG = """\
example: zerowidget 7.5e9 64 --gpu A100-40GB --layers 36 --stage 2
also:    zerowidget embed 7.5e9 64 > explorer.html    the live picture, to include in slides
         zerowidget save 7.5e9 64 -o memory.pdf       a chart or the rows as a file"""


def as_json(setup: Setup) -> str:
    """Everything but the timeline, in bytes and seconds."""
    content = tables(setup)
    del content["timeline"]
    content["advice"] = advice(setup, rows=content["summary"])
    return json.dumps(content, ensure_ascii=False, indent=2)


def text_for(words: list[str], command: Parser, run: Any) -> str:
    """What the command line prints; a user's mistake ends it with one line and exit code 2."""
    given = vars(command.parse_args(words))
    fields = {field: given.pop(field) for field in FIELDS}
    if fields["N"] is UNSET and fields["shapes"] is UNSET:
        command.error("N must be a number unless --shapes is given, got '-'")
    try:
        setup = Setup(**{field: value for field, value in fields.items() if value is not UNSET})
        text: str = run(setup, given)
    except (ValueError, OSError, ImportError, UnknownField) as error:
        command.error(str(error))
    return text


def version_text() -> str:
    """The version of the installed package."""
    from importlib.metadata import version

    return version("zerowidget")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    name = words[0] if words and words[0] in COMMANDS else ""
    command = parser(name)
    if "--version" in words:
        text = version_text()
    else:
        text = text_for(words[1:] if name else words, command, COMMANDS[name][1])
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal without × prints ?, not a traceback
    try:
        print(text, flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # `| head` has seen enough, a full disk has not
            command.exit(1, f"{command.prog}: {error.strerror}\n")
    return 0
