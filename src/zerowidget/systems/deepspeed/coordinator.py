"""Which parameters DeepSpeed's stage 3 gathers and frees, and when: the rules of its coordinator.

From deepspeed 0.19.8, runtime/zero/partitioned_param_coordinator.py and parameter_offload.py. In its first
two steps it records a trace of module calls; this is what it does from the third on, with all of it at hand.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ...layout import Layout
from .trace import Node, Visit


class Limits(NamedTuple):
    """What bounds gathering; all in elements."""

    prefetch: float  # stage3_prefetch_bucket_size
    live: float  # stage3_max_live_parameters
    reuse: float  # stage3_max_reuse_distance
    persistence: float  # stage3_param_persistence_threshold
    apart: bool  # zero_hpz_partition_size: a second shard stays in the node


class Gather(NamedTuple):
    """One all-gather."""

    parameters: tuple[int, ...]
    near: bool  # from the second shards, among neighbours


class Request(NamedTuple):
    """Parameters that a module asks for: its own, or ahead for those that follow."""

    phase: str
    module: str
    why: str  # fetch, prefetch
    parameters: tuple[int, ...]
    elements: float
    gathers: tuple[Gather, ...]


class Moment(NamedTuple):
    """What happens at a visit."""

    visit: Visit
    requests: tuple[Request, ...]
    waits: tuple[int, ...]  # gathers that must be over, counted through the micro-step
    frees: tuple[int, ...]  # parameters
    shards: tuple[int, ...]  # parameters whose second shard is cut now


@dataclass
class Coordinator:
    """The books of stage 3 through one micro-step."""

    elements: list[float]  # per parameter
    away: list[bool]  # per parameter: neither gathered nor on its way
    here: list[bool]  # gathered
    carrier: list[int]  # the gather that brought it
    recent: list[int]  # the latest use that the queue has passed
    apart: list[bool]  # a second shard is there
    inside: list[bool]  # per node: entered and not left
    users: list[list[int]]  # nodes, per parameter
    carried: list[tuple[int, ...]] = field(default_factory=list)  # parameters, per gather
    available: float = 0.0  # elements gathered or on their way
    step: int = 0  # modules entered
    queued: int = 0  # uses that have left the queue


def coordinate(
    layout: Layout, nodes: list[Node], visits: list[Visit], limits: Limits, apart: list[bool]
) -> list[Moment]:
    """What stage 3 gathers and frees at each visit of a micro-step, and at its end.

    ``apart``: the parameters that have a second shard already; it is brought up to date.
    """
    count = len(layout.parameters)
    elements = [parameter.elements for parameter in layout.parameters]
    persists = [size <= limits.persistence for size in elements]
    users: list[list[int]] = [[] for _ in range(count)]
    for number, node in enumerate(nodes):
        for parameter in node.parameters:
            users[parameter].append(number)
    away = [not stays for stays in persists]
    books = Coordinator(
        elements, away, list(persists), [-1] * count, [-1] * count, apart, [False] * len(nodes), users
    )
    queue: list[tuple[int, int]] = []  # parameter, and the use
    uses: list[list[int]] = [[] for _ in range(count)]
    traversed = [0.0]  # elements used before each use
    for visit in visits:
        if visit.kind == "enter":
            use, passed = len(traversed) - 1, traversed[-1]
            for parameter in nodes[visit.node].parameters:
                queue.append((parameter, use))
                uses[parameter].append(use)
                passed = passed + elements[parameter]
            traversed.append(passed)
    following = [0] * count  # place in ``uses`` of the next use
    moments: list[Moment] = []
    for visit in visits:
        node = nodes[visit.node]
        if visit.kind == "enter":
            moments.append(enter(books, node, visit, limits, queue))
            continue
        if visit.kind == "compute":
            moments.append(Moment(visit, (), (), (), ()))
            continue
        if visit.phase == "forward" or not node.keeps:
            books.inside[visit.node] = False
        free: list[int] = []
        for parameter in node.parameters:
            while (
                following[parameter] < len(uses[parameter])
                and uses[parameter][following[parameter]] < books.step
            ):
                following[parameter] += 1
            if persists[parameter] or books.recent[parameter] > books.step:
                continue
            if following[parameter] < len(uses[parameter]):
                use = uses[parameter][following[parameter]]
                if traversed[use] - traversed[books.step] < limits.reuse:
                    continue
            if books.here[parameter] and not in_use(books, parameter):
                free.append(parameter)
        moments.append(release(books, visit, free, limits.apart))
    rest = [parameter for parameter in range(count) if books.here[parameter] and not persists[parameter]]
    end = Visit(0, "end", "backward", "backward")
    moments.append(release(books, end, rest, limits.apart))
    return moments


def in_use(books: Coordinator, parameter: int) -> bool:
    """Whether a module that uses the parameter is entered and not left."""
    return any(books.inside[node] for node in books.users[parameter])


def enter(
    books: Coordinator, node: Node, visit: Visit, limits: Limits, queue: list[tuple[int, int]]
) -> Moment:
    """Gather what the module needs, wait for it, and gather ahead (``fetch_sub_module``).

    Ahead means: take uses off the queue until the budget is reached, which the last of them may overshoot.
    Uses of what is there already are passed by, and remembered so that it is not freed before them.
    """
    requests: list[Request] = []
    wanted = [parameter for parameter in node.parameters if books.away[parameter]]
    if wanted:
        requests.append(ask(books, node, visit, "fetch", wanted))
    waits: list[int] = []
    due = 0
    for parameter in node.parameters:
        if not books.here[parameter]:
            gather = books.carrier[parameter]
            waits.append(gather)
            for other in books.carried[gather]:
                books.here[other] = True
        if books.recent[parameter] < books.step:
            due += 1
    books.inside[visit.node] = True
    for _ in range(due):
        parameter, use = queue[books.queued]
        books.recent[parameter] = use
        books.queued += 1
    budget = min(limits.live - books.available, limits.prefetch)
    ahead: list[int] = []
    asked = 0.0
    while books.queued < len(queue) and asked < budget:
        parameter, use = queue[books.queued]
        books.queued += 1
        books.recent[parameter] = max(books.recent[parameter], use)
        if books.away[parameter]:
            books.away[parameter] = False
            ahead.append(parameter)
            asked = asked + books.elements[parameter]
    if ahead:
        requests.append(ask(books, node, visit, "prefetch", ahead))
    books.step += 1
    return Moment(visit, tuple(requests), tuple(waits), (), ())


def ask(books: Coordinator, node: Node, visit: Visit, why: str, wanted: list[int]) -> Request:
    """Send parameters on their way, those with a second shard first (``__all_gather_params_``)."""
    wanted.sort()
    asked = 0.0
    for parameter in wanted:
        books.away[parameter] = False
        asked = asked + books.elements[parameter]
    books.available = books.available + asked
    gathers: list[Gather] = []
    for near in (True, False):
        group = tuple(parameter for parameter in wanted if books.apart[parameter] == near)
        if group:
            for parameter in group:
                books.carrier[parameter] = len(books.carried)
            books.carried.append(group)
            gathers.append(Gather(group, near))
    return Request(visit.phase, node.name, why, tuple(wanted), asked, tuple(gathers))


def release(books: Coordinator, visit: Visit, free: list[int], apart: bool) -> Moment:
    """Free parameters; with hpZ the first time cuts a second shard (``_partition_param_sec``)."""
    cut: list[int] = []
    for parameter in free:
        books.away[parameter] = True
        books.here[parameter] = False
        books.available = books.available - books.elements[parameter]
        if apart and not books.apart[parameter]:
            books.apart[parameter] = True
            cut.append(parameter)
    return Moment(visit, (), (), tuple(free), tuple(cut))
