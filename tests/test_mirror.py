"""js/model/ is the core once more: the same files, the same functions, the same arguments, and no page."""

import ast
import re
from pathlib import Path

import pytest

from zerowidget import Setup, communication_rows, differences, memory_rows, summary, timeline_rows

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / "src" / "zerowidget"
JAVASCRIPT = ROOT / "js" / "model"

TWINS = {
    **{f"{name}.py": f"{name}.js" for name in ("words", "specs", "program", "layout", "comms", "compute")},
    **{f"{name}.py": f"{name}.js" for name in ("timeline", "memory", "rows", "advice", "compare")},
    "systems/__init__.py": "systems/index.js",
    "systems/paper.py": "systems/paper.js",
    **{
        f"systems/{system}/{name}.py": f"systems/{system}/{'index' if name == '__init__' else name}.js"
        for system, names in {
            "fsdp2": ("__init__", "parts", "ddp", "groups", "rank"),
            "deepspeed": (
                *("__init__", "parts", "buckets", "passes", "replicated"),
                *("trace", "coordinator", "plan", "stage3"),
            ),
        }.items()
        for name in names
    },
}
ONLY_PYTHON = {
    "UnknownField",
    "unknown",  # the hint at the nearest field: only people who write Python mistype one
    # data, which JavaScript describes in JSDoc and writes as plain objects
    *("Buffer", "Recipe", "Transformer", "Cluster", "Collective", "Layer", "Span", "Live", "Step"),
    *("Shape", "Parameter", "Module", "Layout"),
    *("Stored", "Part", "Bucket", "Options", "Mesh", "Group", "Use", "Costs"),
    *("Sizes", "Piece", "Reducer", "Run", "Pending", "Node", "Visit", "Limits", "Gather", "Request"),
    *("Moment", "Coordinator", "Plan", "Gathered"),
}
ONLY_JAVASCRIPT = {
    "SetupError",  # Python's ValueError
    "make_setup",  # Setup(...)
    "but",  # setup.but(...)
    "bytes_of",  # recipe.bytes_of(...)
    "make_op",  # Op(...)
    "make_held",  # Held(...)
    "make_draft",  # Draft(...)
}
AS_FUNCTIONS = {"Setup": "make_setup", "Op": "make_op", "Held": "make_held", "Draft": "make_draft"}

FUNCTION = re.compile(r"^export function (\w+)\((.*?)\) \{$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"^export (?:function|class|const) (\w+)", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def python_names(file):
    """The public functions of a module with their arguments, and its other public names with None."""
    names = {}
    for node in ast.parse((PYTHON / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            arguments = [*node.args.args, *node.args.kwonlyargs, *filter(None, [node.args.kwarg])]
            names[node.name] = [argument.arg for argument in arguments]
        elif isinstance(node, ast.ClassDef):
            names[node.name] = None
        elif isinstance(node, ast.Assign):
            names |= {target.id: None for target in node.targets}
    return {name: arguments for name, arguments in names.items() if not name.startswith("_")}


def javascript_names(file):
    """The exports of a module, functions with their arguments."""
    text = (JAVASCRIPT / file).read_text(encoding="utf-8")
    names = dict.fromkeys(NAME.findall(text))
    for name, arguments in FUNCTION.findall(text):
        names[name] = re.findall(r"(\w+)(?: = [^,]*)?(?:,|$)", arguments.strip())
    return names


def test_every_module_of_the_core_has_its_twin():
    files = {path.relative_to(JAVASCRIPT).as_posix() for path in JAVASCRIPT.rglob("*.js")}
    assert files == set(TWINS.values())
    systems = {path.relative_to(PYTHON).as_posix() for path in (PYTHON / "systems").rglob("*.py")}
    assert systems <= set(TWINS)


@pytest.mark.parametrize("file", TWINS)
def test_twins_have_the_same_names_and_arguments(file):
    python = {name: value for name, value in python_names(file).items() if name not in ONLY_PYTHON}
    javascript = javascript_names(TWINS[file])
    expected = {AS_FUNCTIONS.get(name, name) for name in python}
    assert expected - ONLY_JAVASCRIPT == set(javascript) - ONLY_JAVASCRIPT
    for name, arguments in python.items():
        if arguments is not None:
            assert javascript[name] == arguments, name


def test_the_exceptions_are_all_needed():
    python = {name for file in TWINS for name in python_names(file)}
    javascript = {name for file in TWINS.values() for name in javascript_names(file)}
    assert python - javascript == ONLY_PYTHON | set(AS_FUNCTIONS)
    assert javascript - python == ONLY_JAVASCRIPT


@pytest.mark.parametrize("file", TWINS.values())
def test_the_model_knows_no_page(file):
    code = COMMENT.sub("", (JAVASCRIPT / file).read_text(encoding="utf-8"))
    assert not re.search(r"\b(document|window|globalThis|navigator)\b", code)
    for imported in re.findall(r'from "([^"]+)"', code):
        target = (JAVASCRIPT / file).parent.joinpath(imported).resolve()
        inside = target.is_relative_to(JAVASCRIPT) or target.is_relative_to(PYTHON / "data")
        assert inside, imported
        assert target.exists(), imported


def test_names_that_the_bundle_shortens_are_no_one_else_s():
    """Rows, fields and data are a contract; that no string has one, the build itself looks (js/build.mjs)."""
    build = (ROOT / "js" / "build.mjs").read_text(encoding="utf-8")
    inside = set(re.search(r"const INSIDE = `([^`]*)`", build)[1].split())
    assert "carriers" in inside
    setup = Setup(system="deepspeed", compare="fsdp2", n=2, layers=2)
    tables = (memory_rows, communication_rows, timeline_rows, summary, differences)
    contract = {column for rows in tables for row in rows(setup) for column in row}
    for path in (PYTHON / "data").glob("*.json"):
        contract |= set(re.findall(r'"(\w+)":', path.read_text(encoding="utf-8")))
    assert {"param_dtype", "exposed", "label"} <= contract
    assert not inside & contract
