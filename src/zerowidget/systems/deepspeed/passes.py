"""The forward and backward passes of DeepSpeed's stages 0-2, and when gradients go into buckets.

From deepspeed 0.19.8: runtime/zero/stage_1_and_2.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ...layout import Layout, part_of
from ...program import Buffer
from ...specs import Cluster
from .buckets import Reducer, outside, overflows, put, reduce_bucket
from .parts import Draft, compute, during, give, take


class Run(NamedTuple):
    """Modules of one group that run one after the other."""

    group: str
    modules: list[int]


def runs_of(layout: Layout) -> list[Run]:
    """The modules in the order of the forward pass, those of a group together."""
    runs: list[Run] = []
    for number, module in enumerate(layout.modules):
        if runs and runs[-1].group == module.group:
            runs[-1].modules.append(number)
        else:
            runs.append(Run(module.group, [number]))
    return runs


@dataclass
class Pending:
    """Modules whose backward pass is not written yet."""

    length: float = 0.0  # seconds
    names: list[str] = field(default_factory=list)
    takes: list[Buffer] = field(default_factory=list)
    gives: list[Buffer] = field(default_factory=list)
    passing: float = 0.0  # bytes of gradients on their way into the bucket, of one module at a time


def settle(draft: Draft, pending: Pending, run: Run) -> Pending:
    """Write the backward pass of the modules so far; what pends then."""
    if not pending.names:
        return pending
    name = "" if len(pending.names) == len(run.modules) else ", ".join(pending.names)
    compute(draft, "backward", run.group, "backward", pending.length, name)
    take(draft, pending.takes)
    give(draft, pending.gives)
    if pending.passing > 0.0:
        during(draft, ("buckets", pending.passing))
    return Pending()


def forward_seconds_of(layout: Layout, run: Run, cluster: Cluster) -> float:
    """Seconds of the forward pass of a run."""
    length = 0.0
    for number in run.modules:
        length = length + layout.modules[number].forward_flops / cluster.flops
    return length


def pass_forward(draft: Draft, layout: Layout, runs: list[Run], cluster: Cluster) -> None:
    """Write one forward pass, group by group."""
    for run in runs:
        compute(draft, "forward", run.group, "forward", forward_seconds_of(layout, run, cluster), "")


def pass_backward(
    draft: Draft,
    reducer: Reducer,
    runs: list[Run],
    ready: list[list[int]],
    hooked: bool,
    stored: str,
    opens: list[Buffer],
) -> None:
    """Write one backward pass; a group is cut where a bucket is full.

    ``hooked``: gradients go into buckets as they are ready. ``stored``: what happens to whole gradients that
    wait for the last micro-step: "" (there are none), "takes", "adds", "gives", or "held": they are there
    at rest. ``opens``: what the first gradient allocates.
    """
    layout, cluster = reducer.layout, reducer.cluster
    pending = Pending(takes=list(opens))
    for run in reversed(runs):
        if reducer.setup.recompute and run.group != "root":
            length = forward_seconds_of(layout, run, cluster)
            compute(draft, "recompute", run.group, "backward", length, "")
        for place in range(len(run.modules) - 1, -1, -1):
            number = run.modules[place]
            module = layout.modules[number]
            pending.length = pending.length + 2.0 * module.forward_flops / cluster.flops
            pending.names.append(part_of(module.name))
            mine, left = 0.0, []
            for parameter in ready[number]:
                elements = layout.parameters[parameter].elements
                mine = mine + elements
                if hooked and outside(reducer, parameter):
                    left.append(parameter)
            if stored in ("takes", "gives") and mine > 0.0:
                whole: Buffer = ("whole_gradients", reducer.each * mine)
                (pending.takes if stored == "takes" else pending.gives).append(whole)
            waiting = 0.0
            for parameter in left:
                nbytes = reducer.sizes.param * layout.parameters[parameter].elements
                waiting = waiting + nbytes
                pending.takes.append(("buckets", nbytes))
            if stored not in ("takes", "held"):
                pending.passing = max(pending.passing, reducer.sizes.param * mine - waiting)
            if not hooked:
                continue
            for parameter in ready[number]:
                if overflows(reducer, parameter):
                    pending = settle(draft, pending, run)
                    reduce_bucket(draft, reducer)
                put(reducer, parameter)
                if outside(reducer, parameter):
                    reducer.kept.append(
                        ("buckets", reducer.sizes.param * layout.parameters[parameter].elements)
                    )
        pending = settle(draft, pending, run)
    if hooked:
        reduce_bucket(draft, reducer)
        if reducer.overlap and draft.comm >= 0:
            draft.waits = [draft.comm]  # the epilogue waits for all of them
