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
    "zerowidget.layout",
    "zerowidget.compare",
    "zerowidget.comms",
    "zerowidget.compute",
    "zerowidget.systems",
    "zerowidget.systems.paper",
    "zerowidget.systems.fsdp2",
    *(f"zerowidget.systems.fsdp2.{name}" for name in ("parts", "ddp", "groups", "rank")),
    "zerowidget.systems.deepspeed",
    *(f"zerowidget.systems.deepspeed.{name}" for name in ("parts", "buckets", "passes", "replicated")),
    *(f"zerowidget.systems.deepspeed.{name}" for name in ("trace", "coordinator", "plan", "stage3")),
    "zerowidget.estimates",
    "zerowidget.memory",
    "zerowidget.timeline",
    "zerowidget.rows",
    "zerowidget.advice",
}
SHELL = {f"zerowidget.{name}" for name in ("text", "html", "picture", "export", "widget", "cli", "__main__")}
CHARTS = ("zerowidget.charts",)  # packages with all that is in them
HEAVY = (
    "altair",
    "anywidget",
    "ipywidgets",
    "IPython",
    "numpy",
    "pandas",
    "torch",
    "traitlets",
    "vl_convert",
)


def name_of(path):
    """src/zerowidget/systems/paper.py -> zerowidget.systems.paper"""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def is_chart(module):
    return any(module == name or module.startswith(f"{name}.") for name in CHARTS)


def run_when_imported(node):
    """The nodes below ``node`` that an import runs: no body of a function, nothing for type checkers alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            child = ast.Module(child.orelse, [])
        yield child
        yield from run_when_imported(child)


def imports(module, nodes=ast.walk):
    """Full names of the modules that a module imports anywhere in its file, functions included."""
    path = FILES[module]
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    return imported(nodes(ast.parse(path.read_text(encoding="utf-8"))), package)


def imported(nodes, package):
    """Full names of the modules that import statements among ``nodes`` name."""
    found = set()
    for node in nodes:
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


def test_what_a_function_imports_is_not_imported_with_its_module():
    tree = ast.parse(
        """
import a
if TYPE_CHECKING:
    import for_types
else:
    import b
try:
    import c
except ImportError:
    from d import x
class K:
    import e
    def method(self):
        import in_a_method
def function():
    import in_a_function
async def coroutine():
    import in_a_coroutine
if sys.platform:
    import f
"""
    )
    late = {"for_types", "in_a_method", "in_a_function", "in_a_coroutine"}
    assert imported(run_when_imported(tree), []) == set("abcdef")
    assert imported(ast.walk(tree), []) == set("abcdef") | late


def test_every_core_module_is_there():
    assert set(FILES) >= CORE


def test_every_module_has_its_place():
    assert not {name for name in FILES if not is_chart(name)} - CORE - SHELL - {"zerowidget"}
    assert not CORE & SHELL
    assert not any(is_chart(name) for name in CORE | SHELL)


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


BY_ITSELF = {"zerowidget", "zerowidget.widget", "zerowidget.__main__"}
"""What a test of its own imports, or what runs when it is imported."""


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


def foreign(module, nodes=ast.walk):
    """What a module imports that is neither Python's nor the package's, by its top-level name."""
    names = {name.partition(".")[0] for name in imports(module, nodes) - set(FILES)}
    return names - set(sys.stdlib_module_names)


@pytest.mark.parametrize("module", sorted(set(FILES) - {"zerowidget.widget"}))
def test_only_the_widget_is_imported_with_more_than_python(module):
    assert foreign(module, run_when_imported) == set()


@pytest.mark.parametrize("module", sorted(set(FILES) - {"zerowidget.widget"}))
def test_only_functions_that_draw_need_altair_and_no_other_needs_anything(module):
    assert foreign(module) <= ({"altair"} if is_chart(module) or module == "zerowidget.export" else set())


@pytest.mark.parametrize(
    "code",
    [
        "import zerowidget",
        "import zerowidget as z; z.advice(z.Setup(n=8))",
        *(f"import {name}" for name in sorted(set(FILES) - CORE - BY_ITSELF)),
    ],
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
