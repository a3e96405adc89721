"""The constants, as JSON files that Python and the front end both read."""

from __future__ import annotations

import json
import os
from typing import Any


def load(name: str) -> dict[str, Any]:
    """The content of ``data/<name>.json``."""
    with open(os.path.join(os.path.dirname(__file__), f"{name}.json"), encoding="utf-8") as file:
        content: dict[str, Any] = json.load(file)
    return content
