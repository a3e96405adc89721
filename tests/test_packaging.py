"""What is shipped: complete, the same from a checkout and from an sdist, and installable without Node."""

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.packaging

ROOT = Path(__file__).parents[1]
BUNDLE = "zerowidget/static/widget.js"


def run(*command: str | Path, **options: object) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(source: Path, target: Path, kind: str, **options: object) -> Path:
    run("-m", "build", "--no-isolation", f"--{kind}", "--outdir", target, source, **options)
    (made,) = target.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel"), "wheel")


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("sdist"), "sdist")


@pytest.fixture(scope="module")
def without_node(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment in which no program is on the path."""
    return {**os.environ, "PATH": str(tmp_path_factory.mktemp("empty"))}


@pytest.fixture(scope="module")
def wheel_from_sdist(
    sdist: Path, without_node: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        # Debian 12's Python 3.11.2 does not know the argument `filter` yet, and later ones warn without
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    (source,) = folder.iterdir()
    return build(source, tmp_path_factory.mktemp("rebuilt"), "wheel", env=without_node)


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    package = ROOT / "src"
    data = {path.relative_to(package).as_posix() for path in package.glob("zerowidget/data/*.json")}
    assert data
    assert names(wheel) >= {
        BUNDLE,
        BUNDLE.replace("widget.js", "standalone.js"),
        "zerowidget/py.typed",
        *data,
    }
    outside = {name for name in names(wheel) if not re.match(r"zerowidget(-[\d.]+\.dist-info)?/", name)}
    assert outside == set()


def test_the_sdist_holds_all_that_building_and_testing_need(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {f"src/{BUNDLE}", "js/widget.js", "js/build.mjs", "package.json", "package-lock.json", ".npmrc"}
    wanted |= {"hatch_build.py", "scripts/bundle.py", "scripts/bootstrap.py", "Makefile", "tests/conftest.py"}
    assert held >= wanted | {"LICENSE", "README.md", "PKG-INFO"}
    assert not {name for name in held if "node_modules" in name or "__pycache__" in name}


def test_an_sdist_makes_the_same_wheel_without_node(wheel: Path, wheel_from_sdist: Path) -> None:
    assert names(wheel_from_sdist) == names(wheel)
    with zipfile.ZipFile(wheel) as ours, zipfile.ZipFile(wheel_from_sdist) as theirs:
        assert theirs.read(BUNDLE) == ours.read(BUNDLE)


def test_an_installed_wheel_finds_its_bundle_and_its_command(
    wheel_from_sdist: Path, without_node: dict[str, str], tmp_path: Path
) -> None:
    target = tmp_path / "site"
    run("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", target, wheel_from_sdist)
    environment = {**without_node, "PYTHONPATH": str(target)}
    look = (
        "import zerowidget as z; print(z.__file__, len(str(z.ZeroExplorer(N=7.5e9, n=64)._esm)), sep='\\n')"
    )
    where, length = run("-c", look, env=environment, cwd=tmp_path).splitlines()
    assert Path(where).is_relative_to(target)
    assert int(length) > 1000
    assert "usage" in run(target / "bin" / "zerowidget", "--help", env=environment, cwd=tmp_path).lower()


def test_versions_agree(wheel: Path) -> None:
    package = json.loads((ROOT / "package.json").read_text())
    lock = json.loads((ROOT / "package-lock.json").read_text())
    assert wheel.name.split("-")[1] == package["version"] == lock["version"]


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((ROOT / "package-lock.json").read_text())
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert all("integrity" in entry for entry in packages.values())
    assert not [name for name, entry in packages.items() if "resolved" in entry]
