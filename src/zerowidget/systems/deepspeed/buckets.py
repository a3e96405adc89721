"""The buckets of DeepSpeed's stages 1 and 2: how gradients fill them, and how they are reduced.

From deepspeed 0.19.8: runtime/zero/stage_1_and_2.py. The order of gradients is recorded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from ...layout import Layout
from ...program import Buffer
from ...specs import Cluster, Setup, cluster_of
from .parts import Draft, Sizes, communicate, during, give, overlaps, padded, sizes_of, take

MOST_OWNERS = 1024
"""Past so many ranks the shares of neighbours are reduced as one, to keep the program readable."""


class Piece(NamedTuple):
    """A reduction of a bucket, or of the part of it that one rank owns."""

    op: str
    elements: float
    copied: bool  # whether DeepSpeed flattens several tensors into one first


@dataclass
class Reducer:
    """The state of stages 1 and 2 while gradients come in."""

    setup: Setup
    layout: Layout
    sizes: Sizes
    cluster: Cluster
    overlap: bool
    each: float  # bytes per gradient in a bucket
    offsets: list[float]  # where parameters begin in the flat buffer
    share: float  # elements of the flat buffer that one rank owns
    bucket: list[int] = field(default_factory=list)
    elements: float = 0.0  # in the bucket
    number: int = 0  # of buckets reduced
    previous: int = -1  # index of the reduction before
    kept: list[Buffer] = field(default_factory=list)  # gradients that wait outside the buffer
    first: list[Buffer] = field(default_factory=list)  # what the next reduction allocates


def reducer_of(setup: Setup, stage: int, layout: Layout) -> Reducer:
    """Buckets at stage 1 hold the accumulated gradient, at stage 2 the one of the micro-step."""
    sizes = sizes_of(setup, stage)
    offsets: list[float] = []
    place = 0.0
    for parameter in layout.parameters:
        offsets.append(place)
        place = place + parameter.elements
    each = sizes.accumulated if stage == 1 else sizes.param
    share = padded(setup) / min(setup.n, MOST_OWNERS)
    return Reducer(setup, layout, sizes, cluster_of(setup), overlaps(setup, stage), each, offsets, share)


def slices_of(reducer: Reducer) -> list[tuple[int, float]]:
    """The bucket cut at the borders of shares: owner and elements, neighbours of one owner together."""
    exact = reducer.setup.shapes is not None and reducer.setup.n <= MOST_OWNERS
    slack = 0.0 if exact else reducer.share * 1e-9  # what borders may be off by rounding
    last = min(reducer.setup.n, MOST_OWNERS) - 1
    slices: list[tuple[int, float]] = []
    for parameter in reducer.bucket:
        place = reducer.offsets[parameter]
        end = place + reducer.layout.parameters[parameter].elements
        owner = min(math.floor((place + slack) / reducer.share), last)
        while place < end:
            border = (owner + 1) * reducer.share
            until = end if owner == last or border >= end - slack else border
            if slices and slices[-1][0] == owner:
                slices[-1] = (owner, slices[-1][1] + (until - place))
            else:
                slices.append((owner, until - place))
            place = until
            owner += 1
    return slices


def pieces_of(reducer: Reducer) -> list[Piece]:
    """The reductions of a full bucket.

    One all-reduce for all owners, or with ``use_multi_rank_bucket_allreduce`` off one reduce to each of them.
    A parameter larger than the bucket is cut where its slices exceed it.
    """
    setup, most = reducer.setup, float(reducer.setup.reduce_bucket_size)
    if not setup.contiguous_gradients and setup.offload == "none":
        return [Piece("all_reduce", reducer.elements, len(reducer.bucket) > 1)]
    slices = slices_of(reducer)
    if setup.use_multi_rank_bucket_allreduce and reducer.elements <= most:
        return [Piece("all_reduce", reducer.elements, len(slices) > 1)]
    lists: list[list[float]] = []
    index: dict[int, int] = {}  # of an owner's list
    for owner, elements in slices:
        key = 0 if setup.use_multi_rank_bucket_allreduce else owner
        if key not in index:
            index[key] = len(lists)
            lists.append([])
        lists[index[key]].append(elements)
    op = "all_reduce" if setup.use_multi_rank_bucket_allreduce else "reduce"
    pieces: list[Piece] = []
    for parts in lists:
        pieces += pieces_past(most, parts, op)
    return pieces


def pieces_past(most: float, parts: list[float], op: str) -> list[Piece]:
    """Reductions that go on until they have more than ``most``; ``parts``: elements of what they reduce."""
    pieces: list[Piece] = []
    sofar, count = 0.0, 0
    for elements in parts:
        sofar, count = sofar + elements, count + 1
        if sofar > most:
            pieces.append(Piece(op, sofar, count > 1))
            sofar, count = 0.0, 0
    if count > 0:
        pieces.append(Piece(op, sofar, count > 1))
    return pieces


def reduce_bucket(draft: Draft, reducer: Reducer) -> None:
    """Reduce what is in the bucket.

    Without ``overlap_comm`` on the stream of compute, which goes on after it. With it beside compute, which
    waits for the reduction before, for there are two buffers (``average_tensor``).
    """
    if not reducer.bucket:
        return
    if reducer.cluster.n > 1:
        group, dtype, param = f"bucket {reducer.number}", reducer.sizes.dtype, reducer.sizes.param
        for op, elements, copied in pieces_of(reducer):
            communicate(
                draft, draft.compute, op, group, "backward", elements, dtype, param, reducer.cluster, ""
            )
            take(draft, reducer.first)
            reducer.first = []
            if copied:
                during(draft, ("buckets", reducer.each * elements))
        if not reducer.overlap:
            draft.waits = [draft.comm]
        elif reducer.previous >= 0:
            draft.waits = [reducer.previous]
        reducer.previous = draft.comm
    give(draft, reducer.kept)
    reducer.number += 1
    reducer.bucket = []
    reducer.elements = 0.0
    reducer.kept = []


def overflows(reducer: Reducer, parameter: int) -> bool:
    """Whether a gradient does not fit beside those in the bucket."""
    elements = reducer.elements + reducer.layout.parameters[parameter].elements
    return len(reducer.bucket) > 0 and elements > reducer.setup.reduce_bucket_size


def put(reducer: Reducer, parameter: int) -> None:
    """Put a gradient into the bucket; one larger than the bucket is reduced where it is."""
    reducer.bucket.append(parameter)
    reducer.elements = reducer.elements + reducer.layout.parameters[parameter].elements


def outside(reducer: Reducer, parameter: int) -> bool:
    """Whether a gradient waits for its reduction where autograd left it, not in the bucket's buffer."""
    setup = reducer.setup
    contiguous = setup.contiguous_gradients or setup.offload != "none"  # offloading needs it
    return not contiguous or reducer.layout.parameters[parameter].elements > setup.reduce_bucket_size


def buffers_of(reducer: Reducer) -> list[Buffer]:
    """The buffers of the bucket: one, or two with ``overlap_comm``; none without contiguous gradients."""
    setup = reducer.setup
    if not setup.contiguous_gradients and setup.offload == "none":
        return []
    return [("buckets", reducer.each * setup.reduce_bucket_size * (2.0 if reducer.overlap else 1.0))]
