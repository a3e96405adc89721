"""The order in which DeepSpeed's stage 3 sees modules called: the trace that it records.

From deepspeed 0.19.8, runtime/zero/parameter_offload.py (its hooks), and recordings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ...layout import Layout
from ...specs import layer_name


@dataclass
class Node:
    """A module that is called: one that owns parameters, or one around such."""

    name: str
    group: str
    parameters: list[int]  # in the order of the model
    modules: list[int]  # of the layout: what it computes by itself
    children: list[int] = field(default_factory=list)
    keeps: bool = False  # its inputs need no gradient, so nothing tells it that its backward pass is over


class Visit(NamedTuple):
    """A module is entered, computes, or is left."""

    node: int
    kind: str  # enter, compute, leave
    phase: str  # forward, backward
    op: str  # forward, recompute, backward


def is_number(part: str) -> bool:
    """Whether a part of a name is a place in a list."""
    return part.isdigit() and part.isascii()


def nodes_of(layout: Layout, leaves: bool) -> list[Node]:
    """The modules that are called, the model itself first, each before what is in it.

    A list is not called, so "blocks" is none where "blocks.0" is one. ``leaves``: a layer is one unit, as
    after ``set_z3_leaf_modules``.
    """
    nodes: list[Node] = [Node("", "root", [], [])]
    index: dict[str, int] = {"": 0}
    for number, module in enumerate(layout.modules):
        parts = module.name.split(".") if module.name != "" else []
        above = 0
        for length in range(1, len(parts) + 1):
            if length < len(parts) and is_number(parts[length]):
                continue
            name = ".".join(parts[:length])
            if name not in index:
                index[name] = len(nodes)
                nodes.append(Node(name, module.group, [], []))
                nodes[above].children.append(index[name])
            above = index[name]
            if leaves and layer_name(name + ".") == name:
                break
        mine = nodes[above]
        mine.modules.append(number)
        for parameter in module.parameters:
            if parameter not in mine.parameters:
                mine.parameters.append(parameter)
    for node in nodes:
        node.parameters.sort()
    before_layers(nodes, layout)
    return nodes


def before_layers(nodes: list[Node], layout: Layout) -> None:
    """Mark the modules that look up what the first layer gets."""
    for number, module in enumerate(layout.modules):
        if module.group != "root":
            for node in nodes:
                if node.modules and node.modules[0] < number:
                    node.keeps = True
            return


def visits_of(nodes: list[Node], recompute: bool) -> list[Visit]:
    """One forward and backward pass: the same tree, its branches in order and then in reverse.

    Recorded. The model is entered before its parts in both.
    """
    visits: list[Visit] = []
    walk_forward(nodes, 0, "forward", "forward", visits)
    walk_backward(nodes, 0, recompute, -1, visits)
    return visits


def walk_forward(nodes: list[Node], number: int, phase: str, op: str, visits: list[Visit]) -> None:
    """A module and what is in it, forward."""
    visits.append(Visit(number, "enter", phase, op))
    if nodes[number].modules:
        visits.append(Visit(number, "compute", phase, op))
    for child in nodes[number].children:
        walk_forward(nodes, child, phase, op, visits)
    visits.append(Visit(number, "leave", phase, op))


def walk_backward(nodes: list[Node], number: int, recompute: bool, layer: int, visits: list[Visit]) -> int:
    """A module and what is in it, backward; one with modules in it computes after them.

    ``layer``: the checkpointed layer around it that is not computed again yet, or -1; so is what returns.
    """
    node = nodes[number]
    if recompute and node.name != "" and layer_name(node.name + ".") == node.name:
        layer = number
    visits.append(Visit(number, "enter", "backward", "backward"))
    if node.modules and not node.children:
        if layer >= 0:
            recompute_layer(nodes, layer, visits)
            layer = -1
        visits.append(Visit(number, "compute", "backward", "backward"))
    for child in reversed(node.children):
        layer = walk_backward(nodes, child, recompute, layer, visits)
    if node.modules and node.children:
        visits.append(Visit(number, "compute", "backward", "backward"))
    visits.append(Visit(number, "leave", "backward", "backward"))
    return layer


def recompute_layer(nodes: list[Node], layer: int, visits: list[Visit]) -> None:
    """A checkpointed layer runs forward again as soon as its last module is entered backward.

    Recorded: its parts are entered anew, not the layer, and the last one is not left, for recomputation stops
    inside it.
    """
    if nodes[layer].modules:
        visits.append(Visit(layer, "compute", "backward", "recompute"))
    for child in nodes[layer].children:
        walk_forward(nodes, child, "backward", "recompute", visits)
    while visits[-1].kind == "leave":
        visits.pop()
