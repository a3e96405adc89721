"""The parameter groups of ``fully_shard``: what is in them, over how many ranks, and what they cost."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...comms import seconds
from ...layout import Layout, Parameter, first_uses
from ...specs import DTYPE_BYTES, Cluster, Setup, cluster_of
from .parts import Part, last_uses, step_seconds


class Options(NamedTuple):
    """What the calls of torch.distributed.fsdp take and a Setup does not say, named as there."""

    forward_prefetch: int = 0  # layers in set_modules_to_forward_prefetch; 0: not called
    backward_prefetch: int = 0  # layers in set_modules_to_backward_prefetch; 0: not called
    reshard_after_backward: bool = True  # False: set_reshard_after_backward(False) but in the last micro-step
    separate_reduce_scatter_group: bool = False


DEFAULT = Options()


class Mesh(NamedTuple):
    """The rings that collectives run on, and what they carry."""

    shard: Cluster
    regather: Cluster  # of the shards that are kept after the forward pass
    replicas: Cluster  # of one shard; HSDP's second dimension
    param_dtype: str
    param_bytes: float
    reduce_dtype: str
    reduce_bytes: float


def mesh_of(setup: Setup) -> Mesh:
    """Shards lie on neighbouring ranks, so the replicas of one are a shard group apart.

    ``reshard_after_forward``: a number keeps shards over as many ranks; all of them is the same as True.
    """
    shards = setup.n if setup.shard_size is None else min(setup.n, setup.shard_size)
    kept = setup.reshard_after_forward
    regather = shards if kept is None or kept is True or kept is False else min(shards, kept)
    reduce_dtype = setup.param_dtype if setup.reduce_dtype is None else setup.reduce_dtype
    return Mesh(
        cluster_of(setup, shards),
        cluster_of(setup, regather),
        cluster_of(setup, setup.n // shards, shards),
        setup.param_dtype,
        DTYPE_BYTES[setup.param_dtype],
        reduce_dtype,
        DTYPE_BYTES[reduce_dtype],
    )


class Group(NamedTuple):
    """Parameters that are gathered and reduced together."""

    name: str
    elements: float  # with the padding of every parameter to a multiple of the ranks
    reshards: bool  # after the forward pass


class Use(NamedTuple):
    """A part of the model that computes as a whole, with the parameters of one group."""

    group: int
    layer: int  # its number; -1 outside of the layers
    early: bool  # before the layers: no gradient of its inputs is asked for
    gradients: float  # elements whose gradients its backward pass is the first to write; no padding
    flops: float  # forward


class Costs(NamedTuple):
    """Seconds: of compute per use, of collectives per group, and of the optimizer."""

    forward: list[float]
    backward: list[float]
    gather: list[float]
    regather: list[float]
    reduce: list[float]
    replicate: list[float]
    optimizer: float


def padded(parameter: Parameter, ranks: int) -> float:
    """The elements of a parameter once its dimension 0 is padded to a multiple of the ranks."""
    if parameter.rows == 0:
        return parameter.elements
    return math.ceil(parameter.rows / ranks) * ranks * (parameter.elements / parameter.rows)


def reshards(value: bool | int | None, root: bool) -> bool:
    """Whether a group is sharded again after its forward pass; ``value``: reshard_after_forward.

    None keeps the root whole, for its backward pass comes at once; True does not. Shards over one rank are
    whole.
    """
    if value is None:
        return not root
    return value is True or (value is not False and value > 1)


def groups_of(setup: Setup, stage: int, layout: Layout, parts: list[Part]) -> tuple[list[Group], list[Use]]:
    """The groups, and their uses in the order of the forward pass.

    A group for every layer, and the root for the rest.
    """
    ranks = mesh_of(setup).shard.n
    first, last = first_uses(layout), last_uses(layout)
    groups: list[Group] = []
    uses: list[Use] = []
    numbers: dict[str, int] = {}  # of the groups, by name
    layers = 0
    for part in parts:
        elements, gradients = 0.0, 0.0
        for index in part.modules:
            for parameter in layout.modules[index].parameters:
                if first[parameter] == index:
                    elements = elements + padded(layout.parameters[parameter], ranks)
                if last[parameter] == index:
                    gradients = gradients + layout.parameters[parameter].elements
        if part.group not in numbers:
            numbers[part.group] = len(groups)
            value = False if stage == 2 else setup.reshard_after_forward
            groups.append(Group(part.group, 0.0, reshards(value, part.group == "root")))
        number = numbers[part.group]
        groups[number] = groups[number]._replace(elements=groups[number].elements + elements)
        layer = layers if part.layer else -1
        layers += 1 if part.layer else 0
        uses.append(Use(number, layer, layers == 0, gradients, part.flops))
    return groups, uses


def costs_of(setup: Setup, mesh: Mesh, groups: list[Group], uses: list[Use]) -> Costs:
    """The costs on the cluster of ``setup``."""
    flops = cluster_of(setup).flops
    gather, regather, reduce, replicate = [], [], [], []
    mine = 0.0  # elements of this rank's shards
    for group in groups:
        shard = group.elements / mesh.shard.n
        gather.append(seconds("all_gather", mesh.param_bytes * group.elements, mesh.shard))
        regather.append(seconds("all_gather", mesh.param_bytes * group.elements, mesh.regather))
        reduce.append(seconds("reduce_scatter", mesh.reduce_bytes * group.elements, mesh.shard))
        replicate.append(seconds("all_reduce", mesh.reduce_bytes * shard, mesh.replicas))
        mine = mine + shard
    return Costs(
        [use.flops / flops for use in uses],
        [2.0 * use.flops / flops for use in uses],
        gather,
        regather,
        reduce,
        replicate,
        step_seconds(setup, mine),
    )
