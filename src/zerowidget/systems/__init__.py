"""One file per system. Each answers what a rank holds and what it does in one step.

``hold(setup, stage)``: [(state, device, bytes)] at rest, in drawing order.
``collectives(setup, stage)``: what one step communicates, a row per phase and op.
``program(setup, stage)``: the ops of one step, in issue order.
"""

from __future__ import annotations

from types import ModuleType

from ..specs import Setup
from . import paper

SYSTEMS = {"paper": paper}


def system_of(setup: Setup) -> ModuleType:
    """The module of the system that ``setup`` names."""
    return SYSTEMS[setup.system]
