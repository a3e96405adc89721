"""Find the Chromium that the browser tests drive. Standard library only."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

VARIABLE = "ZEROWIDGET_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PLACES = (
    "/usr/bin/chromium",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
PLAYWRIGHT_CACHES = {"darwin": "~/Library/Caches/ms-playwright", "win32": "~/AppData/Local/ms-playwright"}
PLAYWRIGHT_PATTERNS = (
    "chromium-*/chrome-linux*/chrome",
    "chromium-*/chrome-mac*/*.app/Contents/MacOS/*",
    "chromium-*/chrome-win*/chrome.exe",
)


def find() -> str | None:
    """Return the path of the first Chromium that starts, or None.

    Raises:
        RuntimeError: the environment variable ZEROWIDGET_CHROMIUM names one that does not start.
    """
    if chosen := os.environ.get(VARIABLE):
        if not starts(chosen):
            raise RuntimeError(f"{VARIABLE} must be the path of a working Chromium, got {chosen!r}")
        return chosen
    return next(filter(starts, _candidates()), None)


def starts(path: str) -> bool:
    """Tell whether it runs: a stub without its snap, or a build without its libraries, does not."""
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _candidates() -> list[str]:
    on_path = [found for name in NAMES if (found := shutil.which(name))]
    cache = os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or PLAYWRIGHT_CACHES.get(
        sys.platform, "~/.cache/ms-playwright"
    )
    downloaded = [
        str(path)
        for pattern in PLAYWRIGHT_PATTERNS
        for path in sorted(Path(cache).expanduser().glob(pattern), reverse=True)
    ]
    return [*on_path, *(place for place in PLACES if os.path.exists(place)), *downloaded]
