"""Schedules worked out by hand, and the worked examples that recordings were replayed against."""

import json
from pathlib import Path

import pytest

from zerowidget import Setup, memory_rows, timeline_rows
from zerowidget.program import Op
from zerowidget.specs import RECIPES
from zerowidget.systems.paper import program
from zerowidget.timeline import exposed_seconds, live_bytes, schedule, step_of

WORKED = json.loads(
    (Path(__file__).parent / "golden" / "timeline_worked_examples.json").read_text(encoding="utf-8")
)
NAMES = {
    "AGf": ("all_gather", "forward"),
    "AGb": ("all_gather", "backward"),
    "RSb": ("reduce_scatter", "backward"),
    "FWD": ("forward", "forward"),
    "BWD": ("backward", "backward"),
}


def timed(stage, network, optimizer=0.0, **values):
    """A program's schedule where forward and recompute take 10, backward 20, a collective ``network``."""
    took = {"forward": 10.0, "recompute": 10.0, "backward": 20.0, "optimizer": optimizer}
    ops = program(Setup(n=4, **values), stage)
    return schedule([op._replace(seconds=took.get(op.op, network)) for op in ops])


def told(spans):
    """What a hand-worked example says: op, layer, start, end."""
    return [(span.op.op, span.op.group.removeprefix("layer "), span.start, span.end) for span in spans]


def step_end(spans):
    return max(span.end for span in spans)


def exposures(spans):
    """Op, layer and exposed seconds of every collective."""
    exposed = exposed_seconds(spans, step_end(spans))
    return [
        (span.op.op, span.op.group.removeprefix("layer "), seconds)
        for span, seconds in zip(spans, exposed, strict=True)
        if span.op.stream == "comm"
    ]


def held(spans):
    """When what is held on top of rest changes: time, gathered layers, layers of whole gradients."""
    sizes = dict(buffer for span in spans for buffer in span.op.takes)
    return [
        (live.time, live.gathered / sizes.get("gathered", 1.0), live.buckets / sizes.get("buckets", 1.0))
        for live in live_bytes(spans)
    ]


# Stage 3 without prefetch: golden


@pytest.mark.parametrize(
    ("example", "network"), [("compute_bound_AG6_RS6", 6.0), ("comm_bound_AG15_RS15", 15.0)]
)
def test_without_prefetch_stage_3_is_the_naive_schedule(example, network):
    worked = WORKED[f"naive_serial/{example}"]
    spans = timed(3, network, layers=3, prefetch=0)
    assert told(spans[-1:]) == [("optimizer", "", worked["total"], worked["total"])]  # set to take no time
    ours = [
        [span.op.op, span.op.phase, span.op.group, span.op.stream, span.start, span.end]
        for span in spans[:-1]
    ]
    assert ours == [
        [*NAMES[name], f"layer {layer}", stream, start, end]
        for name, layer, stream, start, end in worked["events"]
    ]
    assert step_end(spans) == worked["total"]
    assert max(gathered for _, gathered, _ in held(spans)) == worked["peak_gathered"]


def test_without_prefetch_nothing_is_hidden():
    spans = timed(3, 6.0, layers=3, prefetch=0)
    assert all(seconds == 6.0 for _, _, seconds in exposures(spans))


# Stage 3 with one layer of prefetch, two layers


def test_prefetch_hides_gathers_behind_compute():
    """A gather starts when the use before the one that computes is over and its layer is free again."""
    spans = timed(3, 4.0, optimizer=5.0, layers=2, prefetch=1)
    assert told(spans) == [
        ("all_gather", "0", 0.0, 4.0),  # nobody computes yet
        ("all_gather", "1", 4.0, 8.0),  # one ahead
        ("forward", "0", 4.0, 14.0),
        ("all_gather", "1", 14.0, 18.0),  # for the backward pass; layer 0 was freed at 14
        ("forward", "1", 14.0, 24.0),
        ("all_gather", "0", 24.0, 28.0),
        ("backward", "1", 24.0, 44.0),
        ("reduce_scatter", "1", 44.0, 48.0),
        ("backward", "0", 44.0, 64.0),
        ("reduce_scatter", "0", 64.0, 68.0),
        ("optimizer", "", 68.0, 73.0),
    ]
    assert exposures(spans) == [
        ("all_gather", "0", 4.0),
        ("all_gather", "1", 0.0),
        ("all_gather", "1", 0.0),
        ("all_gather", "0", 0.0),
        ("reduce_scatter", "1", 0.0),
        ("reduce_scatter", "0", 4.0),
    ]
    assert held(spans) == [
        (0.0, 1, 0),
        (4.0, 2, 0),
        (14.0, 2, 0),  # layer 0 leaves, layer 1 of the backward pass comes
        (24.0, 2, 1),  # layer 1 leaves, layer 0 comes; gradients of layer 1 begin
        (44.0, 1, 2),
        (48.0, 1, 1),
        (64.0, 0, 1),
        (68.0, 0, 0),
    ]


def test_a_slow_network_is_exposed_in_spite_of_prefetch():
    spans = timed(3, 15.0, optimizer=5.0, layers=2, prefetch=1)
    assert told(spans) == [
        ("all_gather", "0", 0.0, 15.0),
        ("all_gather", "1", 15.0, 30.0),
        ("forward", "0", 15.0, 25.0),
        ("all_gather", "1", 30.0, 45.0),  # may start at 25, the network is free at 30
        ("forward", "1", 30.0, 40.0),
        ("all_gather", "0", 45.0, 60.0),
        ("backward", "1", 45.0, 65.0),
        ("reduce_scatter", "1", 65.0, 80.0),
        ("backward", "0", 65.0, 85.0),
        ("reduce_scatter", "0", 85.0, 100.0),
        ("optimizer", "", 100.0, 105.0),
    ]
    # compute stands still 0-15, 25-30, 40-45, 85-100
    assert exposures(spans) == [
        ("all_gather", "0", 15.0),
        ("all_gather", "1", 5.0),
        ("all_gather", "1", 5.0),
        ("all_gather", "0", 0.0),
        ("reduce_scatter", "1", 0.0),
        ("reduce_scatter", "0", 15.0),
    ]
    assert held(spans) == [
        (0.0, 1, 0),
        (15.0, 2, 0),
        (25.0, 1, 0),
        (30.0, 2, 0),
        (40.0, 1, 0),
        (45.0, 2, 1),
        (65.0, 1, 2),
        (80.0, 1, 1),
        (85.0, 0, 1),
        (100.0, 0, 0),
    ]


def test_recompute_runs_between_the_gather_and_the_backward_pass():
    spans = timed(3, 6.0, layers=1, prefetch=0, recompute=True)
    assert told(spans) == [
        ("all_gather", "0", 0.0, 6.0),
        ("forward", "0", 6.0, 16.0),
        ("all_gather", "0", 16.0, 22.0),
        ("recompute", "0", 22.0, 32.0),
        ("backward", "0", 32.0, 52.0),
        ("reduce_scatter", "0", 52.0, 58.0),
        ("optimizer", "", 58.0, 58.0),
    ]
    assert held(spans) == [(0.0, 1, 0), (16.0, 1, 0), (32.0, 1, 1), (52.0, 0, 1), (58.0, 0, 0)]


# Stages 0-2, two layers


def test_stage_0_reduces_under_the_backward_pass():
    spans = timed(0, 30.0, optimizer=5.0, layers=2)
    assert told(spans) == [
        ("forward", "0", 0.0, 10.0),
        ("forward", "1", 10.0, 20.0),
        ("backward", "1", 20.0, 40.0),
        ("all_reduce", "1", 40.0, 70.0),
        ("backward", "0", 40.0, 60.0),
        ("all_reduce", "0", 70.0, 100.0),
        ("optimizer", "", 100.0, 105.0),
    ]
    assert exposures(spans) == [("all_reduce", "1", 10.0), ("all_reduce", "0", 30.0)]
    assert held(spans) == []


def test_stage_1_gathers_parameters_after_the_optimizer_step():
    spans = timed(1, 15.0, optimizer=5.0, layers=2)
    assert told(spans) == [
        ("forward", "0", 0.0, 10.0),
        ("forward", "1", 10.0, 20.0),
        ("backward", "1", 20.0, 40.0),
        ("reduce_scatter", "1", 40.0, 55.0),
        ("backward", "0", 40.0, 60.0),
        ("reduce_scatter", "0", 60.0, 75.0),
        ("optimizer", "", 75.0, 80.0),
        ("all_gather", "0", 80.0, 95.0),
        ("all_gather", "1", 95.0, 110.0),
    ]
    assert exposures(spans) == [
        ("reduce_scatter", "1", 0.0),
        ("reduce_scatter", "0", 15.0),
        ("all_gather", "0", 15.0),
        ("all_gather", "1", 15.0),
    ]
    assert held(spans) == []


def test_stage_1_reduces_in_the_last_micro_step_only():
    spans = timed(1, 15.0, layers=1, accumulation=2)
    assert told(spans) == [
        ("forward", "0", 0.0, 10.0),
        ("backward", "0", 10.0, 30.0),
        ("forward", "0", 30.0, 40.0),
        ("backward", "0", 40.0, 60.0),
        ("reduce_scatter", "0", 60.0, 75.0),
        ("optimizer", "", 75.0, 75.0),
        ("all_gather", "0", 75.0, 90.0),
    ]


def test_stage_2_reduces_in_every_micro_step_and_holds_whole_gradients_until_then():
    spans = timed(2, 35.0, optimizer=5.0, layers=1, accumulation=2)
    assert told(spans) == [
        ("forward", "0", 0.0, 10.0),
        ("backward", "0", 10.0, 30.0),
        ("reduce_scatter", "0", 30.0, 65.0),
        ("forward", "0", 30.0, 40.0),
        ("backward", "0", 65.0, 85.0),  # its gradients go where those of the first micro-step still are
        ("reduce_scatter", "0", 85.0, 120.0),
        ("optimizer", "", 120.0, 125.0),
        ("all_gather", "0", 125.0, 160.0),
    ]
    # compute stands still 40-65, 85-120 and 125-160
    assert exposures(spans) == [
        ("reduce_scatter", "0", 25.0),
        ("reduce_scatter", "0", 35.0),
        ("all_gather", "0", 35.0),
    ]
    assert held(spans) == [(10.0, 0, 1), (65.0, 0, 1), (120.0, 0, 0)]


# schedule: streams, waits, causes


def op(stream, seconds, *waits_for):
    return Op("op", "", "", stream, seconds, waits_for)


def times(*ops):
    return [(span.start, span.end, span.cause) for span in schedule(list(ops))]


def test_streams_run_side_by_side_and_each_in_order():
    assert times(op("compute", 2.0), op("comm", 5.0), op("compute", 1.0), op("comm", 1.0)) == [
        (0.0, 2.0, None),
        (0.0, 5.0, None),
        (2.0, 3.0, 0),
        (5.0, 6.0, 1),
    ]


def test_the_last_to_end_of_what_an_op_waits_for_is_its_cause():
    ops = [op("a", 3.0), op("b", 7.0), op("c", 5.0), op("d", 1.0, 0, 1, 2)]
    assert times(*ops)[3] == (7.0, 8.0, 1)


def test_a_busy_stream_is_the_cause_when_it_is_free_last():
    assert times(op("comm", 4.0), op("compute", 9.0), op("compute", 1.0, 0))[2] == (9.0, 10.0, 1)
    assert times(op("comm", 9.0), op("compute", 4.0), op("compute", 1.0, 0))[2] == (9.0, 10.0, 0)


def test_of_two_that_end_together_the_one_waited_for_explains_the_start():
    assert times(op("compute", 4.0), op("comm", 4.0), op("compute", 1.0, 1))[2] == (4.0, 5.0, 1)


def test_an_op_that_waits_at_the_head_of_its_stream_holds_up_the_rest():
    # a stream never reorders: the third op needs nothing, yet comes after the second
    assert times(op("compute", 9.0), op("comm", 1.0, 0), op("comm", 1.0))[2] == (10.0, 11.0, 1)


def test_of_several_waited_for_that_end_together_the_first_is_the_cause():
    assert times(op("a", 4.0), op("b", 4.0), op("c", 1.0, 0, 1))[2] == (4.0, 5.0, 0)


def test_what_waits_no_time_has_no_cause():
    assert times(op("compute", 0.0), op("comm", 1.0, 0), op("compute", 1.0))[1:] == [
        (0.0, 1.0, None),
        (0.0, 1.0, None),
    ]


def test_what_starts_at_once_has_no_cause():
    assert times(op("compute", 1.0), op("comm", 1.0)) == [(0.0, 1.0, None), (0.0, 1.0, None)]


# exposed time


def exposed(*ops):
    spans = schedule(list(ops))
    return exposed_seconds(spans, step_end(spans))


def test_communication_under_compute_is_not_exposed():
    assert exposed(op("compute", 5.0), op("comm", 4.0)) == [0.0, 0.0]


def test_what_sticks_out_at_the_end_is_exposed():
    assert exposed(op("compute", 5.0), op("comm", 7.0)) == [0.0, 2.0]


def test_one_collective_may_be_exposed_in_several_gaps():
    # a: 0-2, b on the network: 0-3, c waits for b: 3-4; d: 4-9, e: 3-12
    ops = [op("compute", 2.0), op("comm", 3.0), op("compute", 1.0, 1), op("compute", 5.0), op("comm", 9.0)]
    assert exposed(*ops) == [0.0, 1.0, 0.0, 0.0, 3.0]


def test_several_collectives_share_one_gap():
    ops = [op("compute", 1.0), op("comm", 2.0), op("comm", 3.0), op("compute", 1.0, 2)]
    assert exposed(*ops) == [0.0, 1.0, 3.0, 0.0]


def test_a_span_across_two_gaps_counts_in_both():
    # compute 1-2 and 4-5 of a collective from 0 to 6: gaps 0-1, 2-4, 5-6; made of ops on other streams
    ops = [
        op("comm", 6.0),
        op("other", 1.0),
        op("compute", 1.0, 1),
        op("another", 4.0),
        op("compute", 1.0, 3),
    ]
    assert exposed(*ops)[0] == 4.0


# live memory


def test_frees_come_before_allocations_of_the_same_moment():
    first = Op("a", "", "", "comm", 1.0, (), takes=(("gathered", 8.0),))
    spans = schedule(
        [
            first,
            Op("b", "", "", "compute", 1.0, (0,), gives=(("gathered", 8.0),)),
            first._replace(waits_for=(1,)),
            Op("c", "", "", "compute", 1.0, (2,), gives=(("gathered", 8.0),)),
        ]
    )
    assert [(live.time, live.gathered) for live in live_bytes(spans)] == [(0.0, 8.0), (2.0, 8.0), (4.0, 0.0)]


# 1, 2 or 4 layers gathered and up to 2 of whole gradients, never all at once: see the slow example above
@pytest.mark.parametrize("prefetch", [0, 1, 3])
@pytest.mark.parametrize("recipe", ["adam-mixed", "adam-fp32-grads"])
@pytest.mark.parametrize("link", ["InfiniBand-XDR", "Ethernet-10G"])
def test_the_peak_is_the_moment_when_both_kinds_together_are_most(prefetch, recipe, link):
    step = step_of(Setup(N=8e9, layers=8, n=64, prefetch=prefetch, recipe=recipe, link=link), 3)
    assert step.peak in step.live
    assert step.peak.gathered + step.peak.buckets == max(live.gathered + live.buckets for live in step.live)


@pytest.mark.parametrize(
    ("stage", "parts"), [(0, []), (1, []), (2, ["buckets"]), (3, ["gathered", "buckets"])]
)
def test_only_what_is_held_comes_on_top(stage, parts):
    rows = memory_rows(Setup(n=64, prefetch=1))
    assert [row["state"] for row in rows if (row["stage"], row["when"]) == (stage, "peak")] == parts


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("recipe", RECIPES)
def test_each_collective_carries_one_layer_of_its_kind(stage, recipe):
    setup = Setup(N=32e6, n=64, layers=32, recipe=recipe)
    sent = [op for op in program(setup, stage) if op.stream == "comm"]
    assert sent
    for op in sent:
        kind = "parameters" if op.op == "all_gather" else "gradients"
        nbytes = 1e6 * RECIPES[recipe]["states"][("parameters", "gradients").index(kind)][2]
        assert (op.elements, op.nbytes) == (1e6, nbytes)
        assert op.dtype == RECIPES[recipe]["param_dtype" if kind == "parameters" else "grad_dtype"]
        # InfiniBand NDR, 8 ports of 50 GB/s: 63 steps of 6 us + a 64th over 400 GB/s, twice for an all-reduce
        rounds = 126 if op.op == "all_reduce" else 63
        assert op.seconds == pytest.approx(rounds * (6e-6 + nbytes / 64 / 400e9), rel=1e-12)


@pytest.mark.parametrize("stage", [2, 3])
@pytest.mark.parametrize("recipe", ["adam-mixed", "adam-fp32-grads", "adam-fp32"])
def test_buffers_are_as_large_as_what_travels(stage, recipe):
    ops = program(Setup(n=64, layers=4, recipe=recipe), stage)
    reductions = [op for op in ops if op.op == "reduce_scatter"]
    gathers = [op for op in ops if op.op == "all_gather" and stage == 3]
    assert (len(reductions), len(gathers)) == (4, 8 if stage == 3 else 0)
    for op in reductions:
        (backward,) = op.waits_for
        assert ops[backward].takes == op.gives == (("buckets", op.nbytes),)
    assert all(op.takes == (("gathered", op.nbytes),) for op in gathers)


@pytest.mark.parametrize(("stage", "share"), [(0, 1), (1, 64), (2, 64), (3, 64)])
def test_a_rank_updates_the_parameters_whose_optimizer_states_it_holds(stage, share):
    # 28 bytes a parameter pass through the 3350 GB/s of an H100: 12 read, 12 written, 2 read, 2 written
    ops = program(Setup(N=1e9, n=64, gpu="H100-80GB", recipe="adam-mixed"), stage)
    (optimizer,) = [op for op in ops if op.op == "optimizer"]
    assert optimizer.seconds == pytest.approx(28e9 / 3350e9 / share, rel=1e-12)


def most_gathered(**values):
    """Layers gathered at once: 2 bytes of 2^20 parameters each, so that sums are exact."""
    step = step_of(Setup(N=8 * 2**20, layers=8, n=64, **values), 3)
    return max(live.gathered for live in step.live) / 2**21


@pytest.mark.parametrize("prefetch", [0, 1, 2, 5, 100])
@pytest.mark.parametrize("link", ["InfiniBand-XDR", "Ethernet-10G"])
@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("seq_len", [1, 4096, 2**24])
def test_at_most_prefetch_plus_one_layers_are_gathered(prefetch, link, accumulation, seq_len):
    values = {"prefetch": prefetch, "link": link, "accumulation": accumulation, "seq_len": seq_len}
    assert most_gathered(**values) <= prefetch + 1


@pytest.mark.parametrize(("prefetch", "layers"), [(0, 1), (1, 2), (2, 3), (5, 6), (100, 16)])
def test_beside_long_compute_all_that_prefetch_allows_is_gathered(prefetch, layers):
    # a layer computes 88 ms and is gathered in 0.4 ms; a step has 16 uses of layers
    assert most_gathered(prefetch=prefetch, link="InfiniBand-XDR", seq_len=2**24, micro_batch=1) == layers


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_what_is_taken_is_given_back(stage, prefetch):
    live = step_of(Setup(prefetch=prefetch, layers=7, accumulation=3), stage).live
    assert all(entry.gathered >= 0.0 and entry.buckets >= 0.0 for entry in live)
    assert [entry.time for entry in live] == sorted({entry.time for entry in live})
    assert bool(live) == (stage >= 2)
    assert all((entry.gathered, entry.buckets) == (0.0, 0.0) for entry in live[-1:])


@pytest.mark.parametrize("stage", [2, 3])
def test_on_one_gpu_nothing_comes_on_top(stage):
    assert step_of(Setup(n=1), stage).live == []


# what a program must respect, whatever its times


@pytest.mark.parametrize("prefetch", [0, 1, 4])
@pytest.mark.parametrize("recompute", [False, True])
def test_a_layer_computes_only_while_it_is_gathered(prefetch, recompute):
    spans = step_of(Setup(layers=5, prefetch=prefetch, accumulation=2, recompute=recompute), 3).spans
    gathers = [span for span in spans if span.op.op == "all_gather"]
    uses = [span for span in spans if span.op.op in ("forward", "backward")]
    assert len(gathers) == len(uses) == 2 * 2 * 5
    for gather, use in zip(gathers, uses, strict=True):
        assert (gather.op.group, gather.op.phase) == (use.op.group, use.op.phase)
        assert gather.end <= use.start
        assert use.op.gives == gather.op.takes  # freed after the use, not before
    recomputes = [(index, span) for index, span in enumerate(spans) if span.op.op == "recompute"]
    assert len(recomputes) == (10 if recompute else 0)
    for index, span in recomputes:
        gather = gathers[uses.index(spans[index + 1])]
        assert spans[index + 1].op.op == "backward"
        assert gather.end <= span.start


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_gradients_are_reduced_after_they_are_made_and_before_they_are_used(stage):
    spans = step_of(Setup(layers=5), stage).spans
    (optimizer,) = [span for span in spans if span.op.op == "optimizer"]
    made = {span.op.group: span.end for span in spans if span.op.op == "backward"}
    reduced = {span.op.group: span for span in spans if span.op.op in ("reduce_scatter", "all_reduce")}
    assert list(made) == list(reduced) == [f"layer {layer}" for layer in (4, 3, 2, 1, 0)]
    for layer, span in reduced.items():
        assert made[layer] <= span.start
        assert span.end <= optimizer.start
    updated = [span for span in spans if (span.op.op, span.op.phase) == ("all_gather", "step")]
    assert len(updated) == (5 if stage in (1, 2) else 0)
    assert all(span.start >= optimizer.end for span in updated)


def test_rows_tell_the_selected_stage_in_issue_order():
    setup = Setup(layers=2, stage=3, accumulation=1)
    rows = timeline_rows(setup)
    assert [row["index"] for row in rows] == list(range(11))
    assert {row["stage"] for row in rows} == {3}
    assert [row["waits_for"] for row in rows][:3] == [None, 0, 0]
    for row, span in zip(rows, step_of(setup, 3).spans, strict=True):
        assert (row["op"], row["group"], row["phase"], row["stream"]) == span.op[:4]
        assert (row["start"], row["end"], row["waits_for"]) == (span.start, span.end, span.cause)
    columns = (
        "stage, index, op, group, phase, stream, start, end, elements, dtype, nbytes, waits_for, exposed, "
        "ranks, module"
    )
    assert list(rows[0]) == columns.split(", ")


@pytest.mark.parametrize("stage", [2, 3])
def test_gradients_of_a_layer_are_reduced_before_the_next_micro_step_writes_them(stage):
    setup = Setup(N=1e9, n=64, stage=stage, layers=4, accumulation=3, prefetch=9, link="Ethernet-10G")
    spans = step_of(setup, stage).spans
    for group in {span.op.group for span in spans if span.op.op == "backward"}:
        writes = [span for span in spans if span.op.op == "backward" and span.op.group == group]
        reductions = [span for span in spans if span.op.op == "reduce_scatter" and span.op.group == group]
        assert len(writes) == len(reductions) == 3
        for reduction, write in zip(reductions, writes[1:], strict=False):
            assert write.start >= reduction.end
    # so there are never more whole gradients than one model's: 2 bytes for each of the N
    assert max(live.buckets for live in live_bytes(spans)) <= 2e9 * (1 + 1e-12)
