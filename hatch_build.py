"""Builds the JavaScript bundle before the package is put together."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "scripts"))

import bundle  # noqa: E402


class BundleHook(BuildHookInterface):
    """Runs for the wheel, the sdist and the editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build what is missing or out of date."""
        # An sdist (PKG-INFO marks it) brings the bundle along, and unpacking leaves no times to compare.
        if (ROOT / "PKG-INFO").exists() and (ROOT / bundle.BUNDLE).exists():
            return
        bundle.build_if_stale(ROOT)
