"""DeepSpeed's stage 3 against recordings: what it gathers and frees at every module, and what it reduces.

Also its times: worked examples, and the rule for the schedule written down once more, independently.
"""

import json
import random
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from test_deepspeed import PHASES, RECORDINGS, live_at, recording, setup_of

from zerowidget.specs import Setup
from zerowidget.systems.deepspeed.plan import buckets_of, moments_of, plan_of, requests
from zerowidget.systems.deepspeed.stage3 import program_of
from zerowidget.timeline import live_bytes, schedule

GOLDEN = Path(__file__).parent / "golden"
STAGE_3 = [name for name in RECORDINGS if name.startswith("ds_s3")]


def recorded_plan(name):
    recorded = recording(name)
    return recorded, plan_of(setup_of(recorded), leaves=bool(recorded["config"]["leaf"]))


def test_the_recordings_of_stage_3_are_there():
    assert len(STAGE_3) == 21


@pytest.mark.parametrize("name", STAGE_3)
def test_every_request_for_parameters(name):
    """Trigger, reason, parameters and elements, in order."""
    recorded, plan = recorded_plan(name)
    names = [parameter.name for parameter in plan.layout.parameters]
    expected = [
        (
            PHASES[event["phase"].rpartition(".")[2]],
            event["module"],
            event["why"],
            event["params"],
            event["numel"],
        )
        for event in recorded["events"]
        if event["kind"] == "all_gather_request"
    ]
    mine = [
        (asked.phase, asked.module, asked.why, [names[index] for index in asked.parameters], asked.elements)
        for asked in requests(plan)
    ]
    assert mine == expected


@pytest.mark.parametrize("name", STAGE_3)
def test_elements_gathered_and_on_their_way_at_every_module(name):
    """What DeepSpeed counts as available and as in flight when a module is entered and when it is left."""
    recorded, plan = recorded_plan(name)
    elements = [parameter.elements for parameter in plan.layout.parameters]
    here = sum(size for size in elements if size <= plan.limits.persistence)
    mine = []
    for micro_step in moments_of(plan):
        flying = {}
        for moment in micro_step:
            for request in moment.requests:
                for gather in request.gathers:
                    flying[len(flying)] = sum(elements[index] for index in gather.parameters)
            for gather in moment.waits:
                here += flying[gather]
                flying[gather] = 0.0
            here -= sum(elements[index] for index in moment.frees)
            kind = {"enter": "fetch_done", "leave": "release"}.get(moment.visit.kind)
            if kind:
                mine.append((kind, plan.nodes[moment.visit.node].name, here, sum(flying.values())))
    expected = [
        (event["kind"], event["module"], event["live_numel"], event["inflight_numel"])
        for event in recorded["events"]
        if event["kind"] in ("fetch_done", "release")
    ]
    # The model and what looks up embeddings get inputs without gradients: DeepSpeed never hears that their
    # backward pass is over. Nothing is freed there in our books either.
    silent = {node.name for node in plan.nodes if node.keeps} | {""}
    passes, kept = 0, []
    for index, (kind, module, live, flying) in enumerate(mine):
        passes += kind == "fetch_done" and module == ""
        if kind == "release" and module in silent and passes % 2 == 0:
            assert (live, flying) == mine[index - 1][2:]
        else:
            kept.append((kind, module, live, flying))
    assert kept == expected


@pytest.mark.parametrize("name", STAGE_3)
def test_the_gradients_in_every_bucket(name):
    recorded, plan = recorded_plan(name)
    names = [parameter.name for parameter in plan.layout.parameters]
    expected = [
        (event["params"], event["numel"])
        for event in recorded["events"]
        if event["kind"] == "reduce_bucket_flush"
    ]
    mine = [
        (
            [names[index] for index in members],
            sum(plan.layout.parameters[index].elements for index in members),
        )
        for members in buckets_of(plan)
    ]
    assert mine * plan.accumulation == expected


def test_hpz_gathers_what_it_gathers_again_among_neighbours():
    """Recorded: the embeddings, freed in the forward pass and gathered again ahead of the backward pass."""
    _, plan = recorded_plan("ds_s3_bf16_ws4_hpz2")
    names = [parameter.name for parameter in plan.layout.parameters]
    near = [
        [names[index] for index in gather.parameters]
        for asked in requests(plan)
        for gather in asked.gathers
        if gather.near
    ]
    assert near == [["tok.weight", "pos.weight"]]


def test_hpz_holds_a_second_shard_until_the_step():
    """Recorded: 3,692,032 bytes after the backward pass, 0 after the step."""
    recorded, plan = recorded_plan("ds_s3_bf16_ws4_hpz2")
    before, after = recorded["memory_rank0"]
    ops = program_of(plan)
    optimizer = next(index for index, op in enumerate(ops) if op.op == "optimizer")
    assert live_at(ops, optimizer).gathered == before["ds_secondary_bytes"]
    assert live_bytes(schedule(ops))[-1].gathered == after["ds_secondary_bytes"] == 0


def test_with_hpz_later_micro_steps_gather_among_neighbours_alone():
    """Source: the second shards live until ``_post_step``."""
    _, plan = recorded_plan("ds_s3_bf16_ws4_hpz2")
    twice = [op for op in program_of(replace(plan, accumulation=2)) if op.op == "all_gather"]
    once = [op for op in program_of(plan) if op.op == "all_gather"]
    assert {op.ranks for op in once} == {2, 4}
    assert {op.ranks for op in twice[len(once) :]} == {2}


def test_parameters_are_freed_when_no_step_holds_them():
    """Recorded: nothing is live in the step phase."""
    for name in STAGE_3:
        recorded, plan = recorded_plan(name)
        step = [event for event in recorded["events"] if event["phase"].endswith("step")]
        assert step[0]["live_numel"] == 0
        ops = program_of(plan)
        optimizer = next(index for index, op in enumerate(ops) if op.op == "optimizer")
        shards = recorded["memory_rank0"][0]["ds_secondary_bytes"]
        assert live_at(ops, optimizer).gathered == shards


# Times


class Unit:
    """A module of the schedule written down below: elements, and seconds."""

    def __init__(self, elements, forward, backward):
        self.elements, self.forward, self.backward = elements, forward, backward


def timed_plan(units, gather, reduce, prefetch, live, reuse, bucket):
    """The plan of a stack of layers with these units; ``gather`` and ``reduce``: seconds per element."""
    shapes = {f"layers.{index}.weight": (unit.elements, 2) for index, unit in enumerate(units)}
    setup = Setup.from_shapes(
        shapes,
        n=2,
        system="deepspeed",
        stage3_prefetch_bucket_size=prefetch,
        stage3_max_live_parameters=live,
        stage3_max_reuse_distance=reuse,
        stage3_param_persistence_threshold=0,
        reduce_bucket_size=bucket,
    )
    plan = plan_of(setup)
    # of two ranks each sends half of the bytes: bytes per element are set to seconds per element, twice
    cluster = replace(plan.cluster, latency=0.0, bandwidth=0.5)
    return replace(
        plan,
        forward=[unit.forward for unit in units],
        backward=[unit.backward for unit in units],
        gather=("gathered", gather),
        reduce=("reduced", reduce),
        cluster=cluster,
        near=cluster,
    )


LABELS = {
    ("forward", "forward"): "FWD",
    ("backward", "backward"): "BWD",
    ("reduce_scatter", "backward"): "RS",
}


def events_of(plan):
    """(what, which, start, end) of a schedule, without the step: the units of a gather or reduction."""
    buckets = buckets_of(plan)
    asked = [gather.parameters for request in requests(plan) for gather in request.gathers]
    events, gathers = [], 0
    for span in schedule(program_of(plan)):
        op = span.op
        if op.phase == "step":
            continue
        if op.op == "all_gather":
            events.append(("AG", tuple(asked[gathers]), span.start, span.end))
            gathers += 1
        elif op.op == "reduce_scatter":
            events.append(("RS", tuple(buckets[int(op.group.split()[1])]), span.start, span.end))
        else:
            events.append((LABELS[op.op, op.phase], (int(op.group.split()[1]),), span.start, span.end))
    return events


def ruled(units, gather, reduce, prefetch, live, reuse, bucket):
    """The rule of the schedule in its own words, one unit after the other; returns (what, which, start, end).

    The model itself (None) is entered before its layers in either pass: it has no parameters and takes no time,
    but may gather ahead.
    """
    order = [None, *range(len(units))]
    trace = [*order, None, *reversed(range(len(units)))]
    compute_ready = channel_ready = 0.0
    there, arrives, recent = set(), {}, defaultdict(lambda: -1)
    queue = [(step, unit) for step, unit in enumerate(trace) if unit is not None]
    events, waiting, gate = [], [], 0.0

    def size(unit):
        return 0 if unit is None else units[unit].elements * 2

    def send(what, which, not_before, cost):
        nonlocal channel_ready
        start = max(not_before, channel_ready)
        channel_ready = start + cost
        events.append((what, tuple(sorted(which)) if what == "AG" else tuple(which), start, channel_ready))
        return channel_ready

    for step, unit in enumerate(trace):
        if unit is not None and unit not in there:
            there.add(unit)
            arrives[unit] = send("AG", [unit], compute_ready, gather * size(unit))
        if unit is not None:
            compute_ready = max(compute_ready, arrives[unit])
            if (step, unit) in queue:
                queue.remove((step, unit))
                recent[unit] = step
        budget = min(live - sum(map(size, there)), prefetch)
        ahead = []
        while queue and sum(map(size, ahead)) < budget:
            use, later = queue.pop(0)
            recent[later] = use
            if later not in there and later not in ahead:
                ahead.append(later)
        if ahead:
            there.update(ahead)
            end = send("AG", ahead, compute_ready, gather * sum(map(size, ahead)))
            arrives.update(dict.fromkeys(ahead, end))
        if unit is None:
            continue
        backward = step > len(order)
        if backward and waiting and sum(map(size, waiting)) + size(unit) > bucket:
            send("RS", waiting, gate, reduce * sum(map(size, waiting)))
            waiting = []
        start = compute_ready
        compute_ready = start + (units[unit].backward if backward else units[unit].forward)
        events.append(("BWD" if backward else "FWD", (unit,), start, compute_ready))
        if backward:
            waiting.append(unit)
            gate = compute_ready
        passed, near = 0, False
        for later in trace[step + 1 :]:
            if passed >= reuse:
                break
            near = near or later == unit
            passed += size(later)
        if recent[unit] <= step + 1 and not near:
            there.discard(unit)
    if waiting:
        send("RS", waiting, gate, reduce * sum(map(size, waiting)))
    return events


def by_time(events):
    return sorted((start, end, what, which) for what, which, start, end in events)


@pytest.mark.parametrize("seed", range(150))
def test_times_follow_the_rule_for_any_costs_and_knobs(seed):
    """Costs are multiples of 1/4, so that both ways of adding them up are exact."""
    draw = random.Random(seed)
    units = [
        Unit(draw.randint(1, 4), draw.randint(0, 40) / 4, draw.randint(0, 80) / 4)
        for _ in range(draw.randint(1, 7))
    ]
    arguments = (
        draw.randint(0, 20) / 4,
        draw.randint(0, 20) / 4,
        draw.choice([0, 1, 4, 9, 100]),
        draw.choice([0, 4, 8, 16, 100]),
        draw.choice([0, 3, 8, 100]),
        draw.choice([1, 4, 8, 100]),
    )
    plan = timed_plan(units, *arguments)
    assert by_time(events_of(plan)) == by_time(ruled(units, *arguments))


EXAMPLES = json.loads((GOLDEN / "timeline_worked_examples.json").read_text(encoding="utf-8"))
KNOBS = {
    "ds_prefetch0": (0, 10**6, 0),
    "ds_prefetch1_live2": (1, 4, 0),
    "ds_prefetch1_live_inf": (1, 10**6, 0),
    "ds_reuse_inf": (1, 10**6, 10**6),
}


@pytest.mark.parametrize("costs", ["compute_bound_AG6_RS6", "comm_bound_AG15_RS15"])
@pytest.mark.parametrize("name", KNOBS)
def test_the_worked_examples(name, costs):
    """Three layers of 10 s forward and 20 s backward. A unit of 1 there is 2 elements here."""
    example = EXAMPLES[f"{name}/{costs}"]
    each = float(costs.partition("_AG")[2].partition("_")[0]) / 2
    plan = timed_plan([Unit(1, 10.0, 20.0)] * 3, each, each, *KNOBS[name], 2)
    mine = events_of(plan)
    expected = [
        ({"AGf": "AG", "AGb": "AG", "RSb": "RS"}.get(what, what), (int(which),), start, end)
        for what, which, _, start, end in example["events"]
    ]
    assert by_time(mine) == by_time(expected)
    assert max(end for *_, end in mine) == example["total"]
    most = max(entry.gathered for entry in live_bytes(schedule(program_of(plan))))
    assert most == example["peak_gathered"] * 2 * plan.param


def test_without_overlap_everything_takes_turns():
    """``overlap_comm: false``: gathers and reductions run on the stream of compute (parameter_offload.py)."""
    _, plan = recorded_plan("ds_s3_bf16_ws2_rbucket5e5_overlap0")
    spans = schedule(program_of(plan))
    total = sum(span.op.seconds for span in spans)
    assert max(span.end for span in spans) == pytest.approx(total)


def test_overlap_is_the_default_of_stage_3_alone():
    _, plan = recorded_plan("ds_s3_bf16_ws2_rbucket5e5")
    spans = schedule(program_of(plan))
    assert max(span.end for span in spans) < sum(span.op.seconds for span in spans)


def test_a_pass_waits_for_its_last_reduction():
    """Recorded: the host synchronizes the reduce stream at the end of the backward pass."""
    _, plan = recorded_plan("ds_s3_bf16_ws2_accum2")
    ops = program_of(plan)
    first = next(index for index, op in enumerate(ops) if op.op == "reduce_scatter")
    later = next(op for op in ops[first:] if op.op == "forward")
    assert first in later.waits_for


def test_a_gather_of_several_layers_is_named_after_none():
    _, plan = recorded_plan("ds_s3_bf16_ws2_persist0_reuse0_prefetch8e5")
    groups = [op.group for op in program_of(plan) if op.op == "all_gather"]
    assert groups == ["bucket 0", "bucket 1", "bucket 2", "bucket 3"]
    _, plan = recorded_plan("ds_s3_bf16_ws2_persist0_reuse0_prefetch0")
    first = [(op.group, op.module) for op in program_of(plan) if op.op == "all_gather"][:4]
    assert first == [("root", "tok"), ("root", "pos"), ("layer 0", "ln1"), ("layer 0", "qkv")]


def test_the_optimizer_steps_groups_of_1e9_elements():
    """By hand, 4 matrices of 6e8 on 1 rank: groups close at 1.2e9; copies are of one group, norms of each."""
    shapes = {f"layers.{layer}.weight": (60_000, 10_000) for layer in range(4)}
    plan = plan_of(Setup.from_shapes(shapes, n=1, system="deepspeed"))
    assert plan.copies == 6 * 1.2e9
    assert plan.scalars == ("float64", "float64")


def test_parameters_of_a_module_with_modules_in_it():
    """Source: it is entered before them and left after them, so its parameters stay; a list is no module.

    The model gathers its own "scale" first, and computes its gradient last.
    """
    shapes = {"scale": (4,), "blocks.0.up.weight": (4, 4), "blocks.1.up.weight": (4, 4)}
    setup = Setup.from_shapes(
        shapes,
        n=2,
        system="deepspeed",
        stage3_prefetch_bucket_size=0,
        stage3_max_reuse_distance=0,
        stage3_param_persistence_threshold=0,
    )
    plan = plan_of(setup)
    assert [node.name for node in plan.nodes] == ["", "blocks.0", "blocks.0.up", "blocks.1", "blocks.1.up"]
    asked = [(request.module, request.phase) for request in requests(plan)]
    assert asked == [
        ("", "forward"),
        ("blocks.0.up", "forward"),
        ("blocks.1.up", "forward"),
        ("", "backward"),
        ("blocks.1.up", "backward"),
        ("blocks.0.up", "backward"),
    ]
    assert buckets_of(plan) == [[2, 1, 0]]


def test_passing_a_use_by_does_not_save_it_for_the_very_next_module():
    """Source: ``__params_to_release`` asks for a use after the next module, so that one gathers it again.

    By hand, a budget of 1 element: the model asks for "a", "a" passes the use in "b" by and asks for "up".
    """
    shapes = {"a.weight": (4, 4), "b.weight": "a.weight", "layers.0.up.weight": (4, 4)}
    knobs = {"stage3_max_reuse_distance": 0, "stage3_param_persistence_threshold": 0}
    setup = Setup.from_shapes(shapes, n=2, system="deepspeed", stage3_prefetch_bucket_size=1, **knobs)
    asked = [(request.module, request.why, request.parameters) for request in requests(plan_of(setup))]
    assert asked[:3] == [("", "prefetch", (0,)), ("a", "prefetch", (1,)), ("b", "fetch", (0,))]


def test_a_reduction_waits_for_the_last_gradient_in_it_alone():
    """Recorded: the reduce stream waits where gradients are put into the bucket, not where it is sent off.

    With recomputation that is before the next layer is computed again.
    """
    shapes = {f"layers.{layer}.weight": (4, 4) for layer in range(3)}
    setup = Setup.from_shapes(shapes, n=2, system="deepspeed", reduce_bucket_size=16, recompute=True)
    ops = program_of(plan_of(setup))
    backward = [index for index, op in enumerate(ops) if op.op == "backward"]
    waited = [op.waits_for for op in ops if op.op == "reduce_scatter"]
    assert waited == [(index,) for index in backward]
