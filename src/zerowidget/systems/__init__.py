"""One file per system. Each answers what a rank holds and what it does in one step.

``hold(setup, stage)``: what a rank holds at rest, in drawing order.
``program(setup, stage)``: the ops of one step, in issue order.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from ..program import Collective, Op, collected
from ..specs import Setup
from . import paper


def system_of(setup: Setup) -> ModuleType:
    """The module of the system that ``setup`` names, imported when it is first asked for."""
    return import_module(f".{setup.system}", __package__)


def collectives_of(setup: Setup, stage: int, ops: list[Op]) -> list[Collective]:
    """What one step communicates, a row per phase and kind; ``ops``: its program.

    The textbook's are counted in whole tensors, so that N comes out as N and not as a sum over layers.
    """
    return paper.collectives(setup, stage) if setup.system == "paper" else collected(ops)
