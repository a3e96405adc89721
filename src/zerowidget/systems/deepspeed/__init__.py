"""What DeepSpeed 0.19.8 really holds and does, by its source and by recordings of it.

Beside the paper: stages 1 and 2 all-reduce gradients, stage 3 works module by module from a recorded trace of
them, and every stage keeps buffers. Not modelled: the time of an optimizer on the CPU and of copies to it,
the CPU's own launch overhead, NVMe, offloaded parameters.
"""

from __future__ import annotations

from ...layout import Layout, layout_of
from ...program import Held, Op
from ...specs import Setup
from .parts import (
    Sizes,
    accumulates_apart,
    keeps_whole_gradients,
    overlapped,
    padded,
    sizes_of,
    travelling,
)
from .replicated import replicated, sharded
from .stage3 import program3


def program(setup: Setup, stage: int) -> list[Op]:
    """One step in issue order."""
    if stage == 3:
        return program3(setup)
    if stage == 0 or keeps_whole_gradients(setup, stage):
        return replicated(setup, stage)
    return sharded(setup, stage)


def hold(setup: Setup, stage: int) -> list[Held]:
    """At rest, per rank in bytes: after the backward pass, before the optimizer step.

    With 16-bit parameters 2N + 2N + 12N, 2N + 14N/n, 2N + 14N/n, 16N/n and a bucket of
    ``reduce_bucket_size``; with float32 ones stages 1-3 hold a second copy of a rank's share.
    """
    layout = layout_of(setup)
    sizes = sizes_of(setup, stage)
    if stage == 0:
        return replicated_states(setup, sizes)
    if stage == 3:
        return partitioned_states(setup, sizes, layout)
    return sharded_states(setup, stage, sizes, layout)


def row(state: str, each: float, elements: float) -> Held:
    """Something that every rank holds whole."""
    return Held(state, "gpu", each * elements, each)


def share(state: str, device: str, each: float, elements: float, setup: Setup) -> Held:
    """Something of which every rank holds its share of ``elements``."""
    return Held(state, device, each * elements, each, setup.n, True)


def replicated_states(setup: Setup, sizes: Sizes) -> list[Held]:
    """Stage 0: everything whole. Offloading has no effect here."""
    held = [row("parameters", sizes.param, setup.N), row("gradients", sizes.param, setup.N)]
    if sizes.master > 0.0:
        held.append(row("master", sizes.master, setup.N))
    return held + [row(state, each, setup.N) for state, each in sizes.moments]


def sharded_states(setup: Setup, stage: int, sizes: Sizes, layout: Layout) -> list[Held]:
    """Stages 1 and 2: whole parameters, and a share of what belongs to the optimizer.

    They hold the same at rest; what stage 2 saves are gradients between micro-steps. With the optimizer on
    the CPU, gradients go there in float32 as soon as they are reduced, and one parameter's worth of buffer
    stays on either side.
    """
    whole, reached = padded(setup), overlapped(setup, layout)
    owned = whole / setup.n
    away = setup.offload == "cpu"
    device = "cpu" if away else "gpu"
    held = [row("parameters", sizes.param, whole)]
    if keeps_whole_gradients(setup, stage):
        held.append(row("gradients", sizes.param, setup.N))
        held.append(row("main_gradients", sizes.accumulated, whole))
    elif accumulates_apart(setup, stage):
        held.append(share("gradients", "gpu", 4.0, owned, setup))
    elif not away:
        held.append(share("gradients", "gpu", sizes.param, reached, setup))
    if away:
        held.append(share("gradients", "cpu", 4.0, owned, setup))
    held.append(share("master", device, sizes.master, owned, setup))
    held += [share(state, device, each, owned, setup) for state, each in sizes.moments]
    if away:
        largest = 0.0
        for parameter in layout.parameters:
            largest = max(largest, parameter.elements)
        held.append(Held("buckets", "gpu", sizes.param * largest))
        held.append(Held("buckets", "cpu", sizes.param * largest))
        if setup.accumulation > 1 and not accumulates_apart(setup, stage):
            held.append(share("whole_gradients", "cpu", sizes.param, reached, setup))
        held.append(share("copies", "cpu", sizes.param, owned, setup))
    return held


def partitioned_states(setup: Setup, sizes: Sizes, layout: Layout) -> list[Held]:
    """Stage 3: a share of everything, every parameter padded to one chunk per rank.

    Small parameters stay whole beside their share (``mark_persistent_parameters``; a single rank's share is
    whole anyway), and the bucket of
    gradients is allocated once and for all (stage3.py). The optimizer on the CPU takes the gradients with it,
    and holds them once more in float32.
    """
    moved = 0.0
    for elements in travelling(setup, layout):
        moved = moved + elements
    owned = moved / setup.n if setup.shapes is not None else setup.N / setup.n
    kept = 0.0
    for parameter in layout.parameters:
        if parameter.elements <= setup.stage3_param_persistence_threshold:
            kept = kept + parameter.elements
    away = setup.offload == "cpu"
    device = "cpu" if away else "gpu"
    held = [share("parameters", "gpu", sizes.param, owned, setup)]
    held.append(share("gradients", device, sizes.accumulated, owned, setup))
    held.append(share("master", device, sizes.master, owned, setup))
    held += [share(state, device, each, owned, setup) for state, each in sizes.moments]
    if kept > 0.0 and setup.n > 1:
        held.append(Held("gathered", "gpu", sizes.param * kept))
    if setup.contiguous_gradients:
        held.append(Held("buckets", "gpu", sizes.param * setup.reduce_bucket_size))
    if away:
        held.append(share("copies", "cpu", 4.0, owned, setup))
    return held
