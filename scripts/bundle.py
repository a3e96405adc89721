"""Build the JavaScript bundle when its sources are newer than it.

Standard library only: shared by the packaging hook, which runs in a bare build environment, and by the
bootstrap script, which runs before anything is installed.
"""

import re
import shutil
import subprocess
from pathlib import Path

BUNDLE = "src/zerowidget/static/widget.js"
STANDALONE = "src/zerowidget/static/standalone.js"
SOURCES = ("js", "src/zerowidget/data", "package.json", "package-lock.json")
MINIMUM_NODE = (20, 10)  # the first that imports JSON with the standard's `with { type: "json" }`


def is_stale(root: Path) -> bool:
    """Tell whether a bundle is missing or older than a source (a folder's time shows deleted files)."""
    bundles = [root / name for name in (BUNDLE, STANDALONE)]
    if not all(bundle.exists() for bundle in bundles):
        return True
    built = min(bundle.stat().st_mtime for bundle in bundles)
    sources = [root / name for name in SOURCES]
    return any(path.stat().st_mtime > built for top in sources for path in (top, *top.rglob("*")))


def node_problem() -> str | None:
    """Say in a few words why Node.js cannot be used, or None when it can."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        return "was not found"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    numbers = re.match(r"v(\d+)\.(\d+)", version)
    if not numbers:
        return "does not start"
    if tuple(map(int, numbers.groups())) < MINIMUM_NODE:
        return f"is too old ({version.strip()})"
    return None


def install_packages(root: Path) -> None:
    """Run `npm ci` unless node_modules already matches the lock file; npm dates its own copy of it there."""
    lock, installed = root / "package-lock.json", root / "node_modules/.package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        subprocess.run([_npm(), "ci", "--loglevel=error"], cwd=root, check=True, stdin=subprocess.DEVNULL)


def build_if_stale(root: Path) -> None:
    """Bring the bundle up to date.

    Raises:
        RuntimeError: the bundle has to be built and Node.js is missing or too old.
    """
    if not is_stale(root):
        return
    if problem := node_problem():
        raise RuntimeError(
            f"zerowidget's JavaScript has to be built, and Node.js {problem}: install Node.js >= "
            f"{'.'.join(map(str, MINIMUM_NODE))} with npm, or install a released wheel, which needs neither."
        )
    install_packages(root)
    subprocess.run([_npm(), "run", "--silent", "build"], cwd=root, check=True, stdin=subprocess.DEVNULL)


def _npm() -> str:
    return shutil.which("npm") or "npm"  # the full path: on Windows npm is a .cmd file
