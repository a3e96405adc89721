"""DeepSpeed's stages 0-2, step by step: whole parameters, and gradients reduced in buckets.

From deepspeed 0.19.8: runtime/engine.py, runtime/zero/stage_1_and_2.py, runtime/bf16_optimizer.py.
"""

from __future__ import annotations

from ...layout import Layout, layout_of, ready_order
from ...program import Buffer, Op
from ...specs import Cluster, Setup
from .buckets import (
    Piece,
    Reducer,
    buffers_of,
    outside,
    overflows,
    pieces_past,
    put,
    reduce_bucket,
    reducer_of,
)
from .parts import (
    Draft,
    Sizes,
    accumulates_apart,
    communicate,
    during,
    finished,
    give,
    keeps_whole_gradients,
    overlapped,
    padded,
    step_copies,
    step_seconds,
    update,
)
from .passes import pass_backward, pass_forward, runs_of

PLAIN_BUCKET = 5e8
"""Elements after which stage 0 reduces what it has so far (engine.py, ``MEMORY_OPT_ALLREDUCE_SIZE``)."""


def reduce_after(draft: Draft, reducer: Reducer, ready: list[list[int]]) -> None:
    """Stage 1 without ``overlap_comm``: whole gradients go through the bucket when all are there.

    In the order of the model (``reduce_gradients``). A gradient is freed when it is copied into the bucket.
    """
    sums = [0.0] * len(ready)
    last = [-1] * len(ready)
    owner = [-1] * len(reducer.layout.parameters)
    for number, mine in enumerate(ready):
        for parameter in mine:
            owner[parameter] = number
            last[number] = max(last[number], parameter)
            sums[number] = sums[number] + reducer.layout.parameters[parameter].elements
    late: list[Buffer] = []
    for parameter in range(len(owner)):
        if overflows(reducer, parameter):
            reduce_bucket(draft, reducer)
        put(reducer, parameter)
        number = owner[parameter]
        if last[number] != parameter:
            continue
        whole: Buffer = ("whole_gradients", reducer.each * sums[number])
        if outside(reducer, parameter):
            late.append(whole)
        else:
            give(draft, [whole])
    reduce_bucket(draft, reducer)
    give(draft, late)


def sharded(setup: Setup, stage: int) -> list[Op]:
    """Stages 1 and 2 in issue order.

    Stage 2 reduces every micro-step, stage 1 the last one. The updated parameters come back in one all-gather
    (``allgather_bucket_size`` counts only where torch has no all_gather_into_tensor, runtime/utils.py).
    """
    layout = layout_of(setup)
    reducer = reducer_of(setup, stage, layout)
    sizes, cluster = reducer.sizes, reducer.cluster
    runs, ready = runs_of(layout), ready_order(layout)
    buffers = buffers_of(reducer)
    early = stage == 2 or reducer.overlap  # gradients are reduced as they are ready
    stores = stage == 1 and (not reducer.overlap or setup.accumulation > 1)
    share = overlapped(setup, layout)
    again = stage == 2 and setup.offload == "none" and not accumulates_apart(setup, stage)
    draft = Draft()
    for micro_step in range(1, setup.accumulation + 1):
        final = micro_step == setup.accumulation
        hooked = early and (stage == 2 or final)
        stored = ""
        if stores and hooked:
            stored = "gives"
        elif stores:
            stored = "takes" if micro_step == 1 else "adds"
        opens = stage == 2 or micro_step == 1
        anew: list[Buffer] = []  # this micro-step's share of gradients, before it is added to the sum
        if again and micro_step > 1 and cluster.n > 1:
            anew.append(("buckets", sizes.param * share))
        reducer.first, reducer.number, reducer.previous = anew, 0, -1
        pass_forward(draft, layout, runs, cluster)
        pass_backward(draft, reducer, runs, ready, hooked, stored, buffers if opens else [])
        if final and not early:
            reduce_after(draft, reducer, ready)
        if stage == 2 or final:
            give(draft, anew + buffers)
    scalars = ("float32",) if setup.param_dtype == "float32" else ("uint8", "float32")
    owned = padded(setup) / setup.n
    apart = accumulates_apart(setup, stage) or setup.offload != "none"
    several = layout.parameters[0].elements < owned  # of rank 0's share
    copies = 0.0 if apart else step_copies(sizes, owned, several)
    update(draft, scalars, step_seconds(sizes, owned, cluster), copies, cluster)
    gather_parameters(draft, setup, sizes, cluster)
    return finished(draft)


def gather_parameters(draft: Draft, setup: Setup, sizes: Sizes, cluster: Cluster) -> None:
    """Write the all-gather of all updated parameters."""
    if cluster.n > 1:
        dtype, param = sizes.dtype, sizes.param
        communicate(draft, draft.compute, "all_gather", "", "step", padded(setup), dtype, param, cluster, "")


def replicated(setup: Setup, stage: int) -> list[Op]:
    """Stage 0, and stage 1 as BF16_Optimizer: gradients are reduced when the last backward pass is over.

    Stage 0 in the order of the model; BF16_Optimizer all of them at once, cast from float32.
    """
    layout = layout_of(setup)
    reducer = reducer_of(setup, stage, layout)
    sizes, cluster = reducer.sizes, reducer.cluster
    runs, ready = runs_of(layout), ready_order(layout)
    apart = keeps_whole_gradients(setup, stage)
    draft = Draft()
    for micro_step in range(1, setup.accumulation + 1):
        pass_forward(draft, layout, runs, cluster)
        pass_backward(draft, reducer, runs, ready, False, "held" if micro_step == 1 else "adds", [])
    if cluster.n > 1:
        pieces = [Piece("all_reduce", padded(setup), True)] if apart else plain_pieces(layout)
        for number, (op, elements, copied) in enumerate(pieces):
            group, dtype, param = f"bucket {number}", sizes.dtype, sizes.param
            communicate(draft, draft.compute, op, group, "backward", elements, dtype, param, cluster, "")
            if copied:
                during(draft, ("buckets", param * elements))
        draft.waits = [draft.comm]
    single = setup.param_dtype == "float32"
    owned = padded(setup) / setup.n if apart else setup.N
    copies = 0.0 if single or apart else 4.0 * setup.N
    update(draft, ("float32",) if single else (), step_seconds(sizes, owned, cluster), copies, cluster)
    if apart:
        gather_parameters(draft, setup, sizes, cluster)
    return finished(draft)


def plain_pieces(layout: Layout) -> list[Piece]:
    """The reductions of stage 0: a new one begins when what is there is more than 5e8 elements."""
    sizes = [parameter.elements for parameter in layout.parameters]
    return pieces_past(PLAIN_BUCKET, sizes, "all_reduce")
