"""What a step of DeepSpeed's stage 3 follows from, and what it asks for and reduces.

From deepspeed 0.19.8: runtime/zero/stage3.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...layout import Layout, first_uses, layout_of
from ...specs import Cluster, Setup, cluster_of
from .coordinator import Limits, Moment, Request, coordinate
from .parts import overlaps, sizes_of, step_copies, step_seconds, travelling
from .trace import Node, Visit, nodes_of, visits_of

SUB_GROUP = 1e9
"""Elements of a rank's share after which the optimizer starts a new group (``sub_group_size``)."""


@dataclass(frozen=True)
class Plan:
    """All that the program of stage 3 follows from."""

    layout: Layout
    nodes: list[Node]
    visits: list[Visit]  # of one micro-step
    limits: Limits
    users: list[int]  # per parameter, the first module that uses it
    forward: list[float]  # seconds, per module
    backward: list[float]
    padded: list[float]  # elements per parameter as they travel
    param: float  # bytes of a parameter that is gathered, and of a gradient in the bucket
    dtype: str
    gather: tuple[str, float]  # type of gathers, and bytes
    reduce: tuple[str, float]  # type of reductions, and bytes
    bucket: float  # elements
    contiguous: bool
    overlap: bool
    cluster: Cluster  # of all ranks
    near: Cluster  # of neighbours that share the second shards
    accumulation: int
    scalars: tuple[str, ...]
    step: float  # seconds of the optimizer
    copies: float  # bytes that live only in it


def limits_of(setup: Setup) -> Limits:
    """The knobs, and whether hpZ is on: 1 is off (stage3.py)."""
    return Limits(
        float(setup.stage3_prefetch_bucket_size),
        float(setup.stage3_max_live_parameters),
        float(setup.stage3_max_reuse_distance),
        float(setup.stage3_param_persistence_threshold),
        setup.zero_hpz_partition_size > 1 and setup.n > 1,
    )


def plan_of(setup: Setup, leaves: bool = False) -> Plan:
    """The plan of a setup; ``leaves``: whether a layer is one unit (``set_z3_leaf_modules``)."""
    layout = layout_of(setup)
    nodes = nodes_of(layout, leaves)
    sizes, cluster, limits = sizes_of(setup, 3), cluster_of(setup), limits_of(setup)
    forward = [module.forward_flops / cluster.flops for module in layout.modules]
    backward = [2.0 * module.forward_flops / cluster.flops for module in layout.modules]
    away = setup.offload == "cpu"
    groups = sub_groups(setup, layout)
    owned, largest = 0.0, 0.0
    for group in groups:
        owned = owned + group
        largest = max(largest, group)
    checks = ("uint8",) if setup.param_dtype == "float16" else ()
    norms = ("float32" if away else "float64",) * len(groups)
    nodes_apart = setup.n >= 2 * setup.gpus_per_node  # all2all_process_group is used between nodes alone
    quantized = setup.zero_quantized_gradients and nodes_apart
    neighbours = min(setup.zero_hpz_partition_size, setup.n)  # utils/groups.py
    return Plan(
        layout,
        nodes,
        visits_of(nodes, setup.recompute),
        limits,
        first_uses(layout),
        forward,
        backward,
        travelling(setup, layout),
        sizes.param,
        sizes.dtype,
        ("int8", 1.0) if setup.zero_quantized_weights else (sizes.dtype, sizes.param),
        ("int4", 0.5) if quantized else (sizes.dtype, sizes.param),
        float(setup.reduce_bucket_size),
        setup.contiguous_gradients,
        overlaps(setup, 3),
        cluster,
        cluster_of(setup, neighbours) if limits.apart else cluster,
        setup.accumulation,
        checks + norms,
        step_seconds(sizes, owned, cluster),
        0.0 if away else step_copies(sizes, largest, len(layout.parameters) > 1),
    )


def sub_groups(setup: Setup, layout: Layout) -> list[float]:
    """Elements of a rank's share per group that the optimizer steps at once (``_create_fp16_sub_groups``)."""
    groups: list[float] = []
    sofar, count = 0.0, 0
    for elements in travelling(setup, layout):
        sofar, count = sofar + elements / setup.n, count + 1
        if sofar >= SUB_GROUP:
            groups.append(sofar)
            sofar, count = 0.0, 0
    if count > 0:
        groups.append(sofar)
    return groups


def moments_of(plan: Plan) -> list[list[Moment]]:
    """What happens in each micro-step: the second shards of the first one serve all that follow."""
    apart = [False] * len(plan.layout.parameters)
    moments: list[list[Moment]] = []
    for micro_step in range(plan.accumulation):
        if micro_step > (1 if plan.limits.apart else 0):
            moments.append(moments[-1])
        else:
            moments.append(coordinate(plan.layout, plan.nodes, plan.visits, plan.limits, apart))
    return moments


def requests(plan: Plan) -> list[Request]:
    """Every request for parameters in a step of the steady state, in order."""
    asked: list[Request] = []
    for micro_step in moments_of(plan):
        for moment in micro_step:
            asked += moment.requests
    return asked


def completes(plan: Plan, node: Node) -> list[int]:
    """The gradients that a node's backward pass completes, in the order of the model (recorded)."""
    return [parameter for parameter in node.parameters if plan.users[parameter] in node.modules]


def buckets_of(plan: Plan) -> list[list[int]]:
    """The gradients of a backward pass by reduction: a bucket is full when the next one would overflow it."""
    buckets: list[list[int]] = []
    sofar = 0.0
    for visit in plan.visits:
        if visit.kind != "compute" or visit.op != "backward":
            continue
        for parameter in completes(plan, plan.nodes[visit.node]):
            elements = plan.layout.parameters[parameter].elements
            if not buckets or sofar + elements > plan.bucket:
                buckets.append([])
                sofar = 0.0
            buckets[-1].append(parameter)
            sofar = sofar + elements
    return buckets
