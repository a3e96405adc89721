"""What the docs show is run, and what they claim is there."""

import re
import shlex
from pathlib import Path

import nbclient
import nbformat
import pytest

from zerowidget.cli import main
from zerowidget.data import load
from zerowidget.specs import FIELDS

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def blocks(language):
    """(page, code) of every fenced block in that language."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for index, code in enumerate(re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)):
            found.append(pytest.param(code, id=f"{page.name}-{index}"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_in_the_docs_runs_and_says_what_its_comments_say(page):
    names = {}
    code = "".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
    for line in code.splitlines(keepends=True):
        expression, _, comment = line.partition("  # ")
        if comment and not line.startswith((" ", "from", "import")):
            value = eval(expression, names)
            assert repr(value) == comment.strip()
        else:
            exec(line, names)


@pytest.mark.parametrize("code", blocks("console"))
def test_commands_in_the_docs_print_what_is_shown(code, capsys):
    command, _, shown = code.partition("\n")
    prompt, program, *words = shlex.split(command)
    assert (prompt, program) == ("$", "zerowidget")
    assert main(words) == 0
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_run(path):
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    assert all(
        cell.outputs == [] for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"(?:\]\(|src=\"|srcset=\")([^)#\"]+)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_model_page_lists_every_field_with_its_default():
    text = (ROOT / "docs/model.md").read_text(encoding="utf-8")
    for name, rule in FIELDS.items():
        assert f"`{name}`" in text, name
        row = re.search(rf"^\|[^|]*\| `{name}` \|.*\| ([^|]+) \|$", text, re.MULTILINE)
        if row is None:
            assert name in ("unit", "language")
            continue
        default = {None: "not given", False: "off"}.get(rule["default"], rule["default"])
        assert row.group(1) == (f"{default:g}".replace("e+0", "e") if name == "N" else str(default)), name


@pytest.mark.parametrize(
    ("folder", "missing"), [("fsdp2", 1), ("ddp", 0), ("deepspeed", 0)], ids=lambda value: str(value)
)
def test_the_model_page_counts_the_recordings(folder, missing):
    golden = ROOT / "tests" / "golden" / folder
    recordings = [
        path for path in golden.rglob("*.json") if "collectives" in path.read_text(encoding="utf-8")
    ]
    text = (ROOT / "docs/model.md").read_text(encoding="utf-8")
    assert f"| {len(recordings) - missing} of {len(recordings)} recordings |" in text


def test_the_model_page_lists_every_recipe():
    text = (ROOT / "docs/model.md").read_text(encoding="utf-8")
    for name in load("recipes"):
        assert f"`{name}`" in text
