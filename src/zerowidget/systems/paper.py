"""ZeRO as its paper tells it (Rajbhandari et al. 2020, arXiv:1910.02054): even shards, equal layers.

Stage 1 shards optimizer states, stage 2 gradients too, stage 3 parameters too (sections 5.1-5.3).
Plain data parallelism and stages 1-2 move 2N elements a step, stage 3 moves 3N (section 7).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..comms import seconds
from ..compute import backward_seconds, forward_seconds, optimizer_seconds
from ..program import Buffer, Collective, Held, Op, collective_op
from ..specs import Cluster, Setup, cluster_of, recipe_of, transformer_of

SHARDED_FROM = {"optimizer": 1, "gradients": 2, "parameters": 3}

ALL_REDUCE = ("backward", "all_reduce", "gradients")
REDUCE_SCATTER = ("backward", "reduce_scatter", "gradients")
COLLECTIVES = (
    (ALL_REDUCE,),
    (REDUCE_SCATTER, ("step", "all_gather", "parameters")),
    (REDUCE_SCATTER, ("step", "all_gather", "parameters")),
    (("forward", "all_gather", "parameters"), ("backward", "all_gather", "parameters"), REDUCE_SCATTER),
)
"""Per stage: (phase, op, what moves), each once per layer."""


def hold(setup: Setup, stage: int) -> list[Held]:
    """At rest, per GPU: 16N, 4N + 12N/n, 2N + 14N/n, 16N/n bytes for the paper's own recipe (figure 1)."""
    held = []
    for state, kind, each in recipe_of(setup).states:
        sharded = stage >= SHARDED_FROM[kind]
        over = setup.n if sharded else 1
        held.append(Held(state, "gpu", each * setup.N / over, each, over, sharded))
    return held


def repeats(setup: Setup, stage: int, phase: str) -> int:
    """How often a phase's collectives run in one step.

    The paper looks at one micro-step. With more, whole gradients can wait for the last one (stages 0, 1);
    gradients that are kept as shards are reduced every time (2, 3), parameters gathered every time (3).
    """
    return setup.accumulation if stage >= 2 and phase != "step" else 1


def collectives(setup: Setup, stage: int) -> list[Collective]:
    """What one step communicates; nothing on a single GPU."""
    if setup.n == 1:
        return []
    recipe, cluster = recipe_of(setup), cluster_of(setup)
    elements = transformer_of(setup).elements
    rows = []
    for phase, op, kind in COLLECTIVES[stage]:
        dtype = recipe.param_dtype if kind == "parameters" else recipe.grad_dtype
        each, times = recipe.bytes_of(kind), repeats(setup, stage, phase)
        count = setup.layers * times
        moved = setup.N * times  # N comes out as N, not as a sum over layers
        length = count * seconds(op, each * elements, cluster)
        rows.append(Collective(phase, op, dtype, count, moved, each * moved, length, setup.n, cluster.leaves))
    return rows


def program(setup: Setup, stage: int) -> list[Op]:
    """One step in issue order, layer by layer."""
    return gathering(setup) if stage == 3 else replicated(setup, stage)


@dataclass(frozen=True)
class Layer:
    """What one layer takes: seconds of compute, and bytes and seconds of its collectives."""

    elements: float
    forward: float
    backward: float
    param_dtype: str
    param_bytes: float
    grad_dtype: str
    grad_bytes: float
    cluster: Cluster


def layer_of(setup: Setup) -> Layer:
    """The one kind of layer there is."""
    recipe, transformer, cluster = recipe_of(setup), transformer_of(setup), cluster_of(setup)
    param_bytes = recipe.bytes_of("parameters") * transformer.elements
    grad_bytes = recipe.bytes_of("gradients") * transformer.elements
    return Layer(
        transformer.elements,
        forward_seconds(transformer, cluster),
        backward_seconds(transformer, cluster),
        recipe.param_dtype,
        param_bytes,
        recipe.grad_dtype,
        grad_bytes,
        cluster,
    )


def gather_op(
    layer: Layer, group: str, phase: str, waits: tuple[int, ...], takes: tuple[Buffer, ...] = ()
) -> Op:
    """The all-gather of a layer's parameters."""
    dtype, nbytes = layer.param_dtype, layer.param_bytes
    return collective_op(
        "all_gather", group, phase, waits, layer.elements, dtype, nbytes, layer.cluster, "", takes
    )


def reduce_op(layer: Layer, op: str, group: str, backward: int, gives: tuple[Buffer, ...]) -> Op:
    """The reduction of a layer's gradients, once its backward pass is over."""
    waits, dtype, nbytes = (backward,), layer.grad_dtype, layer.grad_bytes
    return collective_op(
        op, group, "backward", waits, layer.elements, dtype, nbytes, layer.cluster, gives=gives
    )


def replicated(setup: Setup, stage: int) -> list[Op]:
    """Stages 0-2: whole parameters.

    Gradients are reduced under the backward pass, and where the optimizer is sharded the updated parameters
    are gathered after it.
    """
    layer = layer_of(setup)
    reduce = COLLECTIVES[stage][0][1]
    bucket = (("buckets", layer.grad_bytes),) if stage == 2 and setup.n > 1 else ()  # until it is reduced
    groups = [f"layer {index}" for index in range(setup.layers)]
    reduced: dict[str, tuple[int, ...]] = {}  # a layer's gradients are written anew once they are reduced
    ops: list[Op] = []
    for micro_step in range(1, setup.accumulation + 1):
        reduces = setup.n > 1 and (stage == 2 or micro_step == setup.accumulation)
        for group in groups:
            ops.append(Op("forward", group, "forward", "compute", layer.forward))
        for group in reversed(groups):
            if setup.recompute:
                ops.append(Op("recompute", group, "backward", "compute", layer.forward))
            waits = reduced.get(group, ())
            ops.append(Op("backward", group, "backward", "compute", layer.backward, waits, takes=bucket))
            if reduces:
                reduced[group] = (len(ops),)
                ops.append(reduce_op(layer, reduce, group, len(ops) - 1, bucket))
    optimizer = len(ops)
    ops.append(step_op(setup, setup.N / setup.n if stage >= 1 else setup.N, (optimizer - 1,)))
    if stage >= 1 and setup.n > 1:
        for group in groups:
            ops.append(gather_op(layer, group, "step", (optimizer,)))
    return ops


def gathering(setup: Setup) -> list[Op]:
    """Stage 3: whole parameters only while a layer computes.

    Each layer is gathered before its forward pass and again before its backward pass, and its gradients are
    reduce-scattered after it. At most ``prefetch`` layers are gathered ahead of the one that computes; with
    none ahead nothing overlaps, the textbook schedule.
    """
    layer = layer_of(setup)
    alone = setup.n == 1
    gathered = () if alone else (("gathered", layer.param_bytes),)
    bucket = () if alone else (("buckets", layer.grad_bytes),)
    groups = [f"layer {index}" for index in range(setup.layers)]
    passes = [("forward", group) for group in groups]
    passes += [("backward", group) for group in reversed(groups)]
    uses = passes * setup.accumulation
    reduced: dict[str, tuple[int, ...]] = {}
    ops: list[Op] = []
    gathers: list[int] = []  # index of the all-gather of each use
    computes: list[int] = []  # index of the last compute of each use
    waits: tuple[int, ...]
    for use, (phase, group) in enumerate(uses):
        while not alone and len(gathers) < min(use + 1 + setup.prefetch, len(uses)):
            ahead_phase, ahead = uses[len(gathers)]
            before = len(gathers) - setup.prefetch - 1  # the use that must be over, and its layer freed
            waits = (computes[before],) if before >= 0 else ()
            gathers.append(len(ops))
            ops.append(gather_op(layer, ahead, ahead_phase, waits, gathered))
        waits = () if alone else (gathers[use],)
        if phase == "forward":
            ops.append(Op("forward", group, phase, "compute", layer.forward, waits, gives=gathered))
            computes.append(len(ops) - 1)
            continue
        if setup.recompute:
            ops.append(Op("recompute", group, phase, "compute", layer.forward, waits))
        waits += reduced.get(group, ())
        ops.append(
            Op("backward", group, phase, "compute", layer.backward, waits, takes=bucket, gives=gathered)
        )
        computes.append(len(ops) - 1)
        if not alone:
            reduced[group] = (len(ops),)
            ops.append(reduce_op(layer, "reduce_scatter", group, len(ops) - 1, bucket))
    ops.append(step_op(setup, setup.N / setup.n, (len(ops) - 1,)))
    return ops


def step_op(setup: Setup, elements: float, waits: tuple[int, ...]) -> Op:
    """The optimizer step over the ``elements`` that this rank updates."""
    length = optimizer_seconds(elements, recipe_of(setup), cluster_of(setup))
    return Op("optimizer", "", "step", "compute", length, waits)
