"""What must hold for every setup, on setups that hypothesis makes up."""

from collections import Counter, defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerowidget import Setup, communication_rows, memory_rows, summary
from zerowidget.advice import explain
from zerowidget.rows import STAGES
from zerowidget.specs import GPUS, LINKS, RECIPES, cluster_of, options
from zerowidget.systems.paper import program
from zerowidget.timeline import step_of

CLOSE = 1e-9
"""Relative: sums of a few hundred terms, in another order."""

BETWEEN = options("link")

FIELDS = {
    "N": st.one_of(st.floats(1, 1e15), st.floats(0, 15).map(lambda power: 10.0**power)),
    "n": st.one_of(st.integers(2, 20), st.integers(1, 10_000_000)),
    "stage": st.sampled_from(STAGES),
    # often the one whose gradients are wider than its parameters
    "recipe": st.one_of(st.just("adam-fp32-grads"), st.sampled_from(list(RECIPES))),
    "layers": st.integers(1, 12),
    "hidden": st.one_of(st.none(), st.integers(1, 65536)),
    "seq_len": st.integers(1, 131072),
    "micro_batch": st.integers(1, 64),
    "accumulation": st.integers(1, 3),
    "recompute": st.booleans(),
    "gpu": st.sampled_from(list(GPUS)),
    "gpus_per_node": st.integers(1, 16),
    "link": st.sampled_from(BETWEEN),
    "utilization": st.floats(0.01, 1),
    "prefetch": st.integers(0, 6),
    "unit": st.sampled_from(["GiB", "GB"]),
    "language": st.sampled_from(["en", "zh"]),
}
setups = st.builds(Setup, **FIELDS)

# the same examples in every run, so that a red build is about the change at hand
everywhere = settings(derandomize=True, deadline=None, max_examples=100)


def steps(setup):
    return [step_of(setup, stage) for stage in STAGES]


@everywhere
@given(setups)
def test_a_step_lasts_between_its_longer_half_and_both(setup):
    for row in summary(setup):
        longer = max(row["compute"], row["communication"])
        assert longer * (1 - CLOSE) <= row["step"]
        assert row["step"] <= (row["compute"] + row["communication"]) * (1 + CLOSE)


@everywhere
@given(setups)
def test_exposed_is_the_time_that_compute_stands_still(setup):
    for row in summary(setup):
        assert row["exposed"] == pytest.approx(
            row["step"] - row["compute"], rel=CLOSE, abs=CLOSE * row["step"]
        )


@everywhere
@given(setups)
def test_a_collective_is_exposed_for_its_own_time_at_most(setup):
    for step in steps(setup):
        for span, exposed in zip(step.spans, step.exposed, strict=True):
            most = span.end - span.start if span.op.stream == "comm" else 0.0
            assert 0.0 <= exposed <= most * (1 + CLOSE)


@everywhere
@given(setups)
def test_a_higher_stage_never_holds_more_at_rest(setup):
    rests = [row["rest"] for row in summary(setup)]
    assert all(higher <= lower * (1 + 1e-12) for lower, higher in pairwise(rests))


@everywhere
@given(setups, FIELDS["n"])
def test_more_gpus_never_hold_more_at_rest(setup, n):
    few, many = sorted((setup.n, n))
    for lower, higher in zip(summary(setup.but(n=few)), summary(setup.but(n=many)), strict=True):
        assert higher["rest"] <= lower["rest"]


@everywhere
@given(setups)
def test_the_peak_is_what_rests_and_what_comes_on_top(setup):
    held = defaultdict(float)
    for row in memory_rows(setup):
        held[row["stage"], row["when"]] += row["nbytes"]
    for row in summary(setup):
        rest, top = held[row["stage"], "rest"], held[row["stage"], "peak"]
        assert row["rest"] == pytest.approx(rest, rel=1e-12)
        assert row["peak"] == pytest.approx(rest + top, rel=1e-12)
        assert row["peak"] >= row["rest"]


@everywhere
@given(setups, st.sampled_from(BETWEEN))
def test_a_faster_link_never_makes_a_step_longer(setup, link):
    other = setup.but(link=link)
    slow, fast = sorted((setup, other), key=lambda choice: cluster_of(choice).bandwidth)
    for stage in STAGES:
        assert step_of(fast, stage).seconds <= step_of(slow, stage).seconds * (1 + CLOSE)


@everywhere
@given(setups, FIELDS["prefetch"])
def test_more_prefetch_never_makes_a_step_longer(setup, prefetch):
    less, more = sorted((setup.prefetch, prefetch))
    long, short = (step_of(setup.but(prefetch=layers), 3).seconds for layers in (less, more))
    assert short <= long * (1 + CLOSE)


@everywhere
@given(setups)
def test_prefetch_concerns_stage_3_only(setup):
    for stage in (0, 1, 2):
        assert program(setup, stage) == program(setup.but(prefetch=setup.prefetch + 1), stage)


@everywhere
@given(setups)
def test_rows_count_the_collectives_of_the_program(setup):
    counts, elements, wire = Counter(), defaultdict(float), defaultdict(float)
    for stage in STAGES:
        for op in program(setup, stage):
            if op.stream == "comm":
                key = stage, op.phase, op.op, op.dtype
                counts[key] += 1
                elements[key] += op.elements
                wire[key] += op.seconds
    rows = {(row["stage"], row["phase"], row["op"], row["dtype"]): row for row in communication_rows(setup)}
    assert set(rows) == (set(counts) if setup.n > 1 else set())
    for key, row in rows.items():
        assert row["count"] == counts[key]
        assert row["elements"] == pytest.approx(elements[key], rel=CLOSE)
        assert row["seconds"] == pytest.approx(wire[key], rel=CLOSE)


@everywhere
@given(setups)
def test_a_rank_sends_all_but_its_own_share(setup):
    share = (setup.n - 1) / setup.n
    for row in communication_rows(setup):
        rounds = 2 if row["op"] == "all_reduce" else 1
        assert row["wire_bytes"] == pytest.approx(rounds * row["nbytes"] * share, rel=1e-12)
        assert row["wire_bytes"] < rounds * row["nbytes"]


@everywhere
@given(setups)
def test_the_volume_is_whole_n_as_the_paper_counts(setup):
    a = setup.accumulation
    expected = (2, 2, a + 1, 3 * a) if setup.n > 1 else (0, 0, 0, 0)
    for row, times in zip(summary(setup), expected, strict=True):
        assert row["volume"] == pytest.approx(times * setup.N, rel=1e-12)


@everywhere
@given(setups)
def test_spans_start_when_their_cause_ends(setup):
    for step in steps(setup):
        for index, span in enumerate(step.spans):
            assert all(before < index for before in span.op.waits_for)
            assert all(step.spans[before].end <= span.start for before in span.op.waits_for)
            assert span.cause is None or span.cause < index
            assert span.start == (0.0 if span.cause is None else step.spans[span.cause].end)


@everywhere
@given(setups)
def test_spans_of_a_stream_follow_each_other(setup):
    for step in steps(setup):
        busy = {"compute": 0.0, "comm": 0.0}
        for span in step.spans:
            assert busy[span.op.stream] <= span.start <= span.end
            busy[span.op.stream] = span.end
        assert step.seconds == max(busy.values())


@everywhere
@given(setups)
def test_nothing_stays_on_top_after_a_step(setup):
    for step in steps(setup):
        assert all(entry.gathered >= 0.0 and entry.buckets >= 0.0 for entry in step.live)
        assert all((entry.gathered, entry.buckets) == (0.0, 0.0) for entry in step.live[-1:])
        assert all(0.0 <= entry.time <= step.seconds for entry in step.live)


@everywhere
@given(setups)
def test_at_most_prefetch_plus_one_layers_are_gathered(setup):
    step = step_of(setup, 3)
    layer = max((op.takes[0][1] for op in program(setup, 3) if op.op == "all_gather"), default=0.0)
    most = max((entry.gathered for entry in step.live), default=0.0)
    assert most <= (setup.prefetch + 1) * layer * (1 + CLOSE)


@everywhere
@given(setups)
def test_every_sentence_is_filled_in(setup):
    for text in explain(setup).values():
        assert text
        assert not {"{", "}"} & set(text)
        assert "nan" not in text
        assert "inf" not in text


@everywhere
@given(setups)
def test_the_elements_moved_are_told_as_a_whole_number_of_n(setup):
    a = setup.accumulation
    if setup.n > 1:
        times = (2, 2, a + 1, 3 * a)[setup.stage]
        assert explain(setup)["moves"].removeprefix("每步 ").startswith(f"{times}N = ")


@everywhere
@given(setups)
def test_a_ring_is_as_fast_as_a_network_port_at_least_and_the_gpu_s_own_link_at_most(setup):
    inside, between = LINKS[GPUS[setup.gpu]["link"]]["bandwidth"], LINKS[setup.link]["bandwidth"]
    assert min(inside, between) <= cluster_of(setup).bandwidth <= inside


def test_links_to_compare_differ_in_bandwidth_only():
    assert len({LINKS[link]["latency"] for link in BETWEEN}) == 1
