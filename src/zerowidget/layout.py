"""The model as systems see it: parameters, the modules that own them, and the groups that modules are in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from .specs import Setup, Shape, elements_of, layer_name, transformer_of


class Parameter(NamedTuple):
    """One tensor of the model."""

    name: str
    elements: float
    rows: int  # length of dimension 0, which FSDP2 shards; 0 when not known: taken to divide evenly
    flat: bool  # one dimension: a bias, or the scale of a norm


class Module(NamedTuple):
    """What owns parameters directly and runs as a whole; in the order of the forward pass."""

    name: str
    group: str  # "layer 0" .., or "root": what is in no layer
    parameters: tuple[int, ...]  # indices; one that is shared stands in every module that uses it
    forward_flops: float  # per micro-step and GPU; the backward pass takes twice as many


class Layout(NamedTuple):
    """Parameters in the order of the model, modules in the order in which they run."""

    parameters: tuple[Parameter, ...]
    modules: tuple[Module, ...]


MATRICES = (("qkv", 3.0), ("proj", 1.0), ("up", 4.0), ("down", 4.0))
"""The matrices of a transformer layer, and their twelfths of its parameters (Kaplan et al. 2020, table 1)."""


@lru_cache(maxsize=8)  # a system asks for it many times in one step
def layout_of(setup: Setup) -> Layout:
    """The shapes of ``setup``; where it has none, equal layers of four matrices each and nothing else.

    Modules outside the layers that come before them look up embeddings, which takes no FLOPs.
    """
    return plain_layout(setup) if setup.shapes is None else shaped_layout(setup, setup.shapes)


def shaped_layout(setup: Setup, shapes: tuple[tuple[str, Shape], ...]) -> Layout:
    """The parameters of a real model, in the modules and layers that their names tell."""
    parameters: list[Parameter] = []
    index: dict[str, int] = {}  # of the parameter, by name; shared ones have one
    members: dict[str, list[int]] = {}  # by module
    layers: dict[str, int] = {}
    for name, shape in shapes:
        if isinstance(shape, str):
            index[name] = index[shape]
        else:
            index[name] = len(parameters)
            rows = shape[0] if shape else 1
            parameters.append(Parameter(name, elements_of(shape), rows, len(shape) <= 1))
        module = name.rpartition(".")[0]
        members.setdefault(module, []).append(index[name])
        layer = layer_name(name)
        if layer != "" and layer not in layers:
            layers[layer] = len(layers)
    tokens = transformer_of(setup).tokens
    attention = 0.0 if setup.hidden is None else 4.0 * setup.seq_len * setup.hidden
    sums = [0.0] * len(layers)
    for module, mine in members.items():
        layer = layer_name(module + ".")
        if layer != "":
            sums[layers[layer]] = sums[layers[layer]] + elements_in(parameters, mine)
    modules: list[Module] = []
    looks_up = len(layers) > 0  # until the first layer begins
    for module, mine in members.items():
        layer = layer_name(module + ".")
        elements = elements_in(parameters, mine)
        if layer == "":
            flops = 0.0 if looks_up else 2.0 * elements * tokens
            modules.append(Module(module, "root", tuple(mine), flops))
            continue
        looks_up = False
        number = layers[layer]
        flops = (2.0 * elements + attention * elements / sums[number]) * tokens
        modules.append(Module(module, f"layer {number}", tuple(mine), flops))
    return Layout(tuple(parameters), tuple(modules))


def elements_in(parameters: Sequence[Parameter], members: list[int]) -> float:
    """The elements of some of the parameters."""
    elements = 0.0
    for member in members:
        elements = elements + parameters[member].elements
    return elements


def plain_layout(setup: Setup) -> Layout:
    """N spread evenly over the layers, each of them four matrices."""
    transformer = transformer_of(setup)
    parameters: list[Parameter] = []
    modules: list[Module] = []
    for layer in range(setup.layers):
        for matrix, twelfths in MATRICES:
            name = f"layers.{layer}.{matrix}"
            parameters.append(Parameter(f"{name}.weight", transformer.elements * twelfths / 12.0, 0, False))
            flops = transformer.forward_flops * twelfths / 12.0
            modules.append(Module(name, f"layer {layer}", (len(parameters) - 1,), flops))
    return Layout(tuple(parameters), tuple(modules))


def first_uses(layout: Layout) -> list[int]:
    """Per parameter, the first module of the forward pass that uses it: in the backward pass, the last."""
    first = [-1] * len(layout.parameters)
    for index, module in enumerate(layout.modules):
        for parameter in module.parameters:
            if first[parameter] < 0:
                first[parameter] = index
    return first


def ready_order(layout: Layout) -> list[list[int]]:
    """Per module, the gradients that its backward pass completes, in the order in which they are ready.

    Recorded: a bias before the weight it belongs to, a norm's weight before its bias.
    """
    users = first_uses(layout)
    order: list[list[int]] = []
    for number, module in enumerate(layout.modules):
        mine = [parameter for parameter in module.parameters if users[parameter] == number]
        flat = [parameter for parameter in mine if layout.parameters[parameter].flat]
        order.append(flat + [parameter for parameter in mine if not layout.parameters[parameter].flat])
    return order


def part_of(name: str) -> str:
    """The last part of a module's name."""
    return name.rpartition(".")[2]
