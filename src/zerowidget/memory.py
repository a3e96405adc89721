"""Bytes per GPU: at rest, and on top of that at the peak of a step."""

from __future__ import annotations

from .program import BUFFERS, Held
from .specs import Setup, total
from .systems import system_of
from .timeline import Step


def at_rest(setup: Setup, stage: int) -> list[Held]:
    """What a GPU holds between steps, in drawing order."""
    held: list[Held] = system_of(setup).hold(setup, stage)
    return held


def on_top(step: Step) -> list[Held]:
    """What comes on top at the moment of the step when most is held; parts that are nothing are left out.

    Only what a sharded optimizer's step copies is a share of 1/n; the rest is whole layers, whole buckets.
    """
    shared = ("copies",) if step.stage >= 1 else ()
    parts = [Held(state, "gpu", getattr(step.peak, state), falls=state in shared) for state in BUFFERS]
    return [part for part in parts if part.nbytes > 0.0]


def nbytes_of(held: list[Held]) -> float:
    """All bytes of GPU memory in a list of what is held."""
    return total([part.nbytes for part in held if part.device == "gpu"])


def bytes_per_gpu(N: float, n: int, stage: int) -> float:
    """The article's ``perGPU``: model states at rest, in bytes, mixed-precision Adam.

    16N, 4N + 12N/n, 2N + 14N/n, 16N/n for stages 0-3. Raises ValueError for a bad argument.

    >>> [round(bytes_per_gpu(7.5e9, 64, stage) / 2**30, 1) for stage in (0, 1, 2, 3)]
    [111.8, 29.2, 15.5, 1.7]
    """
    setup = Setup(N=N, n=n, stage=stage)
    return nbytes_of(at_rest(setup, setup.stage))
