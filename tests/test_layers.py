"""Who may import whom: the core needs Python alone, and arrows point one way."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import zerowidget

PACKAGE = Path(zerowidget.__file__).parent
CORE = {
    "zerowidget.words",
    "zerowidget.specs",
    "zerowidget.data",
    "zerowidget.program",
    "zerowidget.comms",
    "zerowidget.compute",
    "zerowidget.systems",
    "zerowidget.systems.paper",
    "zerowidget.memory",
    "zerowidget.timeline",
    "zerowidget.rows",
    "zerowidget.advice",
}
HEAVY = ("altair", "anywidget", "ipywidgets", "IPython", "numpy", "pandas", "torch", "traitlets")


def name_of(path):
    """src/zerowidget/systems/paper.py -> zerowidget.systems.paper"""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(module):
    """Full names of the modules that a module imports anywhere in its file, functions included."""
    path = FILES[module]
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join(base + (node.module.split(".") if node.module else []))
            members = {f"{source}.{alias.name}" for alias in node.names}
            found.update((members & set(FILES)) or {source})
    return found


def test_relative_imports_are_followed():
    assert imports("zerowidget.systems.paper") >= {
        "zerowidget.comms",
        "zerowidget.specs",
        "zerowidget.program",
    }
    assert imports("zerowidget.systems") >= {"zerowidget.systems.paper", "zerowidget.specs"}
    assert "zerowidget.words" in imports("zerowidget.specs")


def test_every_core_module_is_there():
    assert set(FILES) >= CORE


@pytest.mark.parametrize("module", sorted(CORE))
def test_the_core_imports_python_and_itself_only(module):
    others = {name for name in imports(module) if name.partition(".")[0] not in sys.stdlib_module_names}
    assert others <= CORE


@pytest.mark.parametrize("module", sorted(set(FILES) - {"zerowidget"}))
def test_nobody_imports_the_widget(module):
    assert "zerowidget.widget" not in imports(module)


@pytest.mark.parametrize("module", sorted(CORE))
def test_arrows_point_one_way(module):
    reached, ahead = set(), {name for name in imports(module) if name in CORE}
    while ahead:
        name = ahead.pop()
        reached.add(name)
        ahead |= {other for other in imports(name) if other in CORE} - reached
    assert module not in reached


def loaded(code):
    """Top-level names of all modules that a fresh Python has after ``code``."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}; print(*sorted(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
        cwd=PACKAGE.parent,
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize("module", sorted(set(FILES) - {"zerowidget.widget"}))
def test_only_the_widget_needs_more_than_python(module):
    others = {name for name in imports(module) if name.partition(".")[0] not in sys.stdlib_module_names}
    assert others <= set(FILES)


@pytest.mark.parametrize(
    "code",
    ["import zerowidget", "import zerowidget as z; z.explain(z.Setup(n=8))", "import zerowidget.cli"],
)
def test_the_model_brings_nothing_but_python(code):
    before, after = loaded("pass"), loaded(code)
    assert "zerowidget" in after
    assert not set(HEAVY) & (after - before)
    assert after - before - set(sys.stdlib_module_names) == {"zerowidget"}


def test_public_names_are_all_there():
    names = [name for name in zerowidget.__all__ if name != "ZeroExplorer"]  # which brings Jupyter
    assert all(callable(getattr(zerowidget, name)) for name in names)
    with pytest.raises(AttributeError, match="has no attribute 'ZeroExplorerr'"):
        _ = zerowidget.ZeroExplorerr
