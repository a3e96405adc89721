"""What the stages of DeepSpeed share: bytes per parameter, what a rank owns, and how a program is written."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from ...layout import Layout
from ...program import Buffer, Op, collective_op
from ...specs import DTYPE_BYTES, Cluster, Setup, recipe_of

SCALAR_BYTES = {"uint8": 1.0, "float32": 4.0, "float64": 8.0}

ALIGNMENT = 2
"""Elements that every rank's share of a flat buffer is a multiple of (stage_1_and_2.py,
``nccl_start_alignment_factor``)."""


class Sizes(NamedTuple):
    """Bytes per parameter at one stage. DeepSpeed's states follow its data types, not the recipe."""

    dtype: str  # of parameters, and of gradients as they travel
    param: float
    accumulated: float  # gradients as they wait for the optimizer
    master: float  # 0 where the optimizer steps the parameters themselves
    moments: tuple[tuple[str, float], ...]  # states of the optimizer, by name


def sizes_of(setup: Setup, stage: int) -> Sizes:
    """Stages 1-3 keep a float32 master even beside float32 parameters (recorded: a duplicate).

    Stage 0 has no gradient type of its own: DeepSpeed refuses the mix (engine.py,
    ``_do_optimizer_sanity_check``).
    """
    param = DTYPE_BYTES[setup.param_dtype]
    chosen = setup.grad_accum_dtype
    accumulated = param if chosen is None or stage == 0 else DTYPE_BYTES[chosen]
    master = 0.0 if stage == 0 and setup.param_dtype == "float32" else 4.0
    moments = tuple(
        (state, each)
        for state, kind, each in recipe_of(setup).states
        if kind == "optimizer" and state not in ("master", "main_gradients")
    )
    return Sizes(setup.param_dtype, param, accumulated, master, moments)


def keeps_whole_gradients(setup: Setup, stage: int) -> bool:
    """Whether stage 1 turns into BF16_Optimizer, which accumulates whole gradients in float32.

    So does bfloat16 with float32 accumulation, unless the optimizer is offloaded (engine.py,
    ``_do_optimizer_sanity_check``; recorded).
    """
    mixed = setup.param_dtype == "bfloat16" and setup.grad_accum_dtype == "float32"
    return stage == 1 and mixed and setup.offload == "none"


def accumulates_apart(setup: Setup, stage: int) -> bool:
    """Whether gradients of 16 bits are summed straight into this rank's float32 share of them."""
    return (
        stage in (1, 2)
        and setup.param_dtype != "float32"
        and setup.grad_accum_dtype == "float32"
        and not keeps_whole_gradients(setup, stage)
    )


def overlaps(setup: Setup, stage: int) -> bool:
    """``overlap_comm``, which DeepSpeed sets at stage 3 alone when nobody does (zero/config.py)."""
    return stage == 3 if setup.overlap_comm is None else setup.overlap_comm


def rounded_up(elements: float, parts: int) -> float:
    """The first multiple of ``parts`` that is not less."""
    return float(math.ceil(elements / parts)) * parts


def padded(setup: Setup) -> float:
    """Elements of the flat buffer of stages 1 and 2: N, padded so that all shares are equal and aligned.

    Without shapes nothing is padded: N divides as far as anyone knows.
    """
    return setup.N if setup.shapes is None else rounded_up(setup.N, ALIGNMENT * setup.n)


def overlapped(setup: Setup, layout: Layout) -> float:
    """Elements of the parameters that reach into the first rank's share of stages 1 and 2, whole.

    A gradient is kept whole when the border of a share cuts it: recorded, 3,699,200 bytes for a share of
    3,692,032.
    """
    share = padded(setup) / setup.n
    if setup.shapes is None:
        return share
    reached = 0.0
    for parameter in layout.parameters:
        if reached >= share:
            break
        reached = reached + parameter.elements
    return reached


def travelling(setup: Setup, layout: Layout) -> list[float]:
    """Elements of every parameter as stage 3 moves it: padded to one chunk per rank."""
    if setup.shapes is None:
        return [parameter.elements for parameter in layout.parameters]
    return [rounded_up(parameter.elements, setup.n) for parameter in layout.parameters]


def step_seconds(sizes: Sizes, elements: float, cluster: Cluster) -> float:
    """Seconds of an optimizer step over ``elements`` parameters, with gradients in float32."""
    states = sizes.master
    for _, each in sizes.moments:
        states = states + each
    return (2.0 * states + 4.0 + sizes.param) * elements / cluster.memory_bandwidth


@dataclass
class Draft:
    """A program as it is written: its ops, and the buffers of each, which come later."""

    ops: list[Op] = field(default_factory=list)
    takes: list[list[Buffer]] = field(default_factory=list)
    gives: list[list[Buffer]] = field(default_factory=list)
    compute: int = -1  # index of the last op of the compute stream
    comm: int = -1  # index of the last op of the network
    waits: list[int] = field(default_factory=list)  # what the next op of the compute stream waits for


def compute(draft: Draft, op: str, group: str, phase: str, length: float, module: str) -> None:
    """Write an op of the compute stream; it waits for what was said to wait for."""
    draft.compute = len(draft.ops)
    write(draft, Op(op, group, phase, "compute", length, tuple(draft.waits), module=module))
    draft.waits = []


def communicate(
    draft: Draft,
    after: int,
    op: str,
    group: str,
    phase: str,
    elements: float,
    dtype: str,
    each: float,
    cluster: Cluster,
    module: str,
) -> None:
    """Write a collective that waits for one op, or for none: -1. ``each``: bytes per element."""
    draft.comm = len(draft.ops)
    waits = (after,) if after >= 0 else ()
    write(draft, collective_op(op, group, phase, waits, elements, dtype, each * elements, cluster, module))


def write(draft: Draft, op: Op) -> None:
    """Write an op; its buffers come later."""
    draft.ops.append(op)
    draft.takes.append([])
    draft.gives.append([])


def take(draft: Draft, buffers: list[Buffer]) -> None:
    """The op written last allocates buffers when it starts."""
    draft.takes[-1] += buffers


def give(draft: Draft, buffers: list[Buffer]) -> None:
    """The op written last frees buffers when it ends."""
    draft.gives[-1] += buffers


def during(draft: Draft, buffer: Buffer) -> None:
    """Hold a buffer while the op written last runs."""
    take(draft, [buffer])
    give(draft, [buffer])


def finished(draft: Draft) -> list[Op]:
    """The ops with their buffers."""
    return [
        op._replace(takes=tuple(takes), gives=tuple(gives)) if takes or gives else op
        for op, takes, gives in zip(draft.ops, draft.takes, draft.gives, strict=True)
    ]


def step_copies(sizes: Sizes, elements: float, several: bool) -> float:
    """Bytes of gradients that the optimizer step makes for a share of ``elements``, all there at one moment.

    It joins those of ``several`` parameters in one tensor, and casts that to float32
    (stage_1_and_2.py, ``step``; stage3.py, ``_prepare_fp32_grad_for_sub_group``).
    """
    joined = sizes.accumulated * elements if several else 0.0
    return joined + (4.0 * elements if sizes.accumulated < 4.0 else 0.0)


def update(draft: Draft, scalars: tuple[str, ...], length: float, copies: float, cluster: Cluster) -> None:
    """Write the optimizer step, after the scalars that all ranks agree on: overflow, and the norm.

    ``copies``: bytes of gradients that live only in it.
    """
    if cluster.n > 1:
        for dtype in scalars:
            each = SCALAR_BYTES[dtype]
            communicate(draft, draft.compute, "all_reduce", "", "step", 1.0, dtype, each, cluster, "")
        if scalars:
            draft.waits = [draft.comm]
    compute(draft, "optimizer", "", "step", length, "")
    if copies > 0.0:
        during(draft, ("copies", copies))
