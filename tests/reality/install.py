"""Install PyTorch and DeepSpeed into an environment of their own: `make reality` runs this first.

    python tests/reality/install.py [--torch VERSION] [--deepspeed VERSION]

VERSION can be "newest". What is there already is left alone.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from configurations import VERSIONS

ROOT = Path(__file__).parents[2]
VENV = ROOT / ".venv-reality"
PYTHON = VENV / ("Scripts" if os.name == "nt" else "bin") / "python"
STAMP = VENV / "installed"
# DeepSpeed compiles nothing here, but its build looks at the PyTorch that is installed.
ENVIRONMENT = {**os.environ, "DS_BUILD_OPS": "0", "DS_ACCELERATOR": "cpu"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for package, recorded in VERSIONS.items():
        parser.add_argument(f"--{package}", default=recorded, metavar="VERSION", help=f"default {recorded}")
    arguments = parser.parse_args()
    torch, deepspeed = wanted("torch", arguments.torch), wanted("deepspeed", arguments.deepspeed)
    both = f"{torch} {deepspeed}"
    if STAMP.exists() and STAMP.read_text() == both and "==" in torch and "==" in deepspeed:
        return
    try:
        if not has_pip():
            say(f"making {VENV.name}")
            run(sys.executable, "-m", "venv", "--clear", VENV)
        STAMP.unlink(missing_ok=True)
        say(f"installing {torch} and {deepspeed} into {VENV.name}; the first time this takes minutes")
        pip_install(torch, "numpy", "setuptools", "wheel", "packaging", "psutil")
        pip_install("--no-build-isolation", torch, deepspeed)
    except subprocess.CalledProcessError as error:
        sys.exit(
            f"reality: could not install {torch} and {deepspeed} (exit code {error.returncode}). The lines above "
            "say why: without a network there is nothing to install from, and not every version exists for "
            f"Python {sys.version_info.major}.{sys.version_info.minor}."
        )
    STAMP.write_text(both)


def has_pip() -> bool:
    """Tell whether the environment is there and whole; an interrupted one is made anew."""
    if not PYTHON.exists():
        return False
    return subprocess.run([PYTHON, "-c", "import pip"], capture_output=True, check=False).returncode == 0


def wanted(package: str, version: str) -> str:
    return package if version == "newest" else f"{package}=={version}"


def pip_install(*arguments: str) -> None:
    run(PYTHON, "-m", "pip", "install", "--quiet", "--upgrade", "--disable-pip-version-check", *arguments)


def run(*command: str | Path) -> None:
    subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, check=True, stdin=subprocess.DEVNULL)


def say(text: str) -> None:
    print(f"reality: {text}", flush=True)


if __name__ == "__main__":
    main()
