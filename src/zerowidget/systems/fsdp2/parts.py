"""What the data-parallel wrappers of PyTorch have in common: what is stored, and what computes as a whole."""

from __future__ import annotations

from typing import NamedTuple

from ...layout import Layout
from ...specs import Setup, cluster_of, recipe_of


class Stored(NamedTuple):
    """What PyTorch keeps per parameter between steps: the tensors it trains, and no copies of them."""

    dtype: str
    each: float  # bytes of a parameter, and of a gradient
    states: tuple[tuple[str, float], ...]  # of the optimizer, in bytes


def stored_of(setup: Setup) -> Stored:
    """Where the recipe has a master copy, PyTorch trains that fp32 tensor itself, and casts it to compute."""
    recipe = recipe_of(setup)
    dtype, each = recipe.param_dtype, recipe.bytes_of("parameters")
    states = []
    for state, kind, nbytes in recipe.states:
        if state == "master":
            dtype, each = "float32", 4.0
        elif kind == "optimizer" and state != "main_gradients":
            states.append((state, nbytes))
    return Stored(dtype, each, tuple(states))


def step_seconds(setup: Setup, elements: float) -> float:
    """Optimizer step over ``elements`` parameters, bound by memory.

    Parameters and states of the optimizer are read and written, gradients read.
    """
    stored = stored_of(setup)
    nbytes = 3.0 * stored.each
    for _, each in stored.states:
        nbytes = nbytes + 2.0 * each
    return nbytes * elements / cluster_of(setup).memory_bandwidth


class Part(NamedTuple):
    """What computes as a whole: a layer, or what is outside of the layers before or after them."""

    group: str
    layer: bool
    modules: list[int]
    flops: float  # forward


def parts_of(layout: Layout) -> list[Part]:
    """The parts of the model, in the order of the forward pass; those of no module are left out."""
    before: list[int] = []
    after: list[int] = []
    layers: dict[str, list[int]] = {}
    for index, module in enumerate(layout.modules):
        if module.group != "root":
            layers.setdefault(module.group, []).append(index)
        elif len(layers) == 0:
            before.append(index)
        else:
            after.append(index)
    parts = []
    for group, modules in [("root", before), *layers.items(), ("root", after)]:
        flops = 0.0
        for index in modules:
            flops = flops + layout.modules[index].forward_flops
        if len(modules) > 0:
            parts.append(Part(group, group != "root", modules, flops))
    return parts


def last_uses(layout: Layout) -> list[int]:
    """Per parameter, the last module of the forward pass that uses it: in the backward pass, the first."""
    last = [-1] * len(layout.parameters)
    for index, module in enumerate(layout.modules):
        for parameter in module.parameters:
            last[parameter] = index
    return last
