"""What must hold for the real systems whatever the setup, on setups that hypothesis makes up."""

from collections import defaultdict

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tinygpt import blocks_only_shapes, tinygpt_shapes

from zerowidget import Setup, communication_rows, memory_rows, summary
from zerowidget.advice import advice, explain, movement, rings
from zerowidget.compare import differences
from zerowidget.layout import layout_of
from zerowidget.memory import at_rest, nbytes_of, on_top
from zerowidget.program import BUFFERS
from zerowidget.rows import STAGES, steps_of
from zerowidget.specs import DTYPE_BYTES, GPUS, RECIPES, cluster_of, options, resized
from zerowidget.timeline import step_of

CLOSE = 1e-9
"""Relative: sums of a few hundred terms, in another order."""

MODELS = [
    None,
    tuple(tinygpt_shapes(L=3, h=42, vocab=1021).items()),
    tuple(tinygpt_shapes(L=2, tied=True).items()),
    tuple(blocks_only_shapes().items()),
    (("embed.weight", (100, 7)), ("norm.weight", (7,))),
]
DTYPES = st.sampled_from(list(DTYPE_BYTES))
SIZES = st.one_of(st.just(0), st.integers(0, 45).map(lambda power: 2**power), st.integers(0, 10**7))

FIELDS = {
    "n": st.sampled_from([1, 2, 3, 4, 8, 16, 48, 64, 1024, 10_000_000]),
    "stage": st.sampled_from(STAGES),
    "system": st.sampled_from(["deepspeed", "fsdp2"]),
    "compare": st.sampled_from([None, "paper", "deepspeed", "fsdp2"]),
    "recipe": st.sampled_from(list(RECIPES)),
    "hidden": st.one_of(st.none(), st.integers(1, 65536)),
    "seq_len": st.integers(1, 131072),
    "accumulation": st.integers(1, 3),
    "recompute": st.booleans(),
    "gpu": st.sampled_from(list(GPUS)),
    "gpus_per_node": st.sampled_from([1, 4, 8]),
    "link": st.sampled_from(options("link")),
    "utilization": st.floats(0.01, 1),
    "prefetch": st.integers(0, 4),
    "param_dtype": DTYPES,
    "reduce_dtype": st.one_of(st.none(), DTYPES),
    "grad_accum_dtype": st.one_of(st.none(), DTYPES),
    "reshard_after_forward": st.sampled_from([None, True, False, 1, 2, 4]),
    "shard_size": st.sampled_from([None, None, 1, 2, 4, 8]),
    "sync_every_micro_batch": st.booleans(),
    "stage3_prefetch_bucket_size": SIZES,
    "stage3_max_live_parameters": SIZES,
    "stage3_max_reuse_distance": SIZES,
    "stage3_param_persistence_threshold": SIZES,
    "reduce_bucket_size": SIZES.filter(bool),
    "overlap_comm": st.sampled_from([None, False, True]),
    "contiguous_gradients": st.booleans(),
    "use_multi_rank_bucket_allreduce": st.booleans(),
    "zero_hpz_partition_size": st.sampled_from([1, 2, 4]),
    "zero_quantized_weights": st.booleans(),
    "zero_quantized_gradients": st.booleans(),
    "offload": st.sampled_from(["none", "cpu"]),
    "unit": st.sampled_from(["GiB", "GB"]),
    "language": st.sampled_from(["en", "zh"]),
}


@st.composite
def setups(draw, **fixed):
    """A setup of a real system; sizes that do not divide are drawn anew."""
    values = {name: draw(strategy) for name, strategy in FIELDS.items()}
    shapes = draw(st.sampled_from(MODELS))
    if shapes is None:
        values |= {"N": draw(st.floats(1, 1e15)), "layers": draw(st.integers(1, 5))}
    else:
        values["shapes"] = shapes
    try:
        for system in ("deepspeed", "fsdp2"):
            Setup(**{**values, "system": system})
        return Setup(**{**values, **fixed})
    except ValueError:
        assume(False)
        raise


everywhere = settings(derandomize=True, deadline=None, max_examples=120)


@everywhere
@given(setups())
def test_a_step_lasts_between_its_longer_half_and_both(setup):
    for row, step in zip(summary(setup), steps_of(setup), strict=True):
        streams = defaultdict(float)
        for span in step.spans:
            streams[span.op.stream] += span.op.seconds
        assert max(streams.values()) * (1 - CLOSE) <= row["step"]
        assert row["step"] <= (row["compute"] + row["communication"]) * (1 + CLOSE)


@everywhere
@given(setups())
def test_exposed_is_the_time_that_compute_stands_still(setup):
    for row in summary(setup):
        waited = row["step"] - row["compute"]
        assert row["exposed"] == pytest.approx(waited, rel=CLOSE, abs=CLOSE * row["step"])


@everywhere
@given(setups())
def test_memory_over_time_is_never_negative_and_back_to_rest_at_the_end(setup):
    for step in steps_of(setup):
        for entry in step.live:
            assert all(getattr(entry, state) >= 0.0 for state in BUFFERS)
            assert entry.nbytes == pytest.approx(sum(getattr(entry, state) for state in BUFFERS), rel=1e-12)
            assert 0.0 <= entry.time <= step.seconds
        assert all(entry.nbytes == 0.0 for entry in step.live[-1:])


@everywhere
@given(setups())
def test_ops_wait_for_earlier_ops_only_and_streams_are_queues(setup):
    for step in steps_of(setup):
        busy = defaultdict(float)
        for index, span in enumerate(step.spans):
            assert all(0 <= before < index for before in span.op.waits_for)
            assert all(step.spans[before].end <= span.start for before in span.op.waits_for)
            assert busy[span.op.stream] <= span.start <= span.end
            busy[span.op.stream] = span.end
            assert span.op.stream in ("compute", "comm", "replicas")
            assert (span.op.ranks > 1) == (span.op.stream != "compute")


@everywhere
@given(setups())
def test_alone_a_gpu_sends_nothing(setup):
    alone = setup.but(n=1)
    assert communication_rows(alone) == []


def moved(setup, stage, op):
    """Elements that all collectives of one kind move in a step, scalars aside."""
    spans = step_of(setup, stage).spans
    ops = [span.op for span in spans if span.op.op == op and (op, span.op.phase) != ("all_reduce", "step")]
    return sum(op.elements for op in ops)


def sizes(setup):
    """Elements of the whole model, and of what is outside its layers."""
    layout = layout_of(setup)
    owned = {index for module in layout.modules if module.group == "root" for index in module.parameters}
    root = sum(layout.parameters[index].elements for index in owned)
    return sum(parameter.elements for parameter in layout.parameters), root


def padded(setup, ranks):
    """The same with every parameter's rows a multiple of the ranks, as FSDP2 pads them."""
    layout = layout_of(setup)
    owned = {index for module in layout.modules if module.group == "root" for index in module.parameters}
    whole = root = 0.0
    for index, parameter in enumerate(layout.parameters):
        rows = parameter.rows
        elements = parameter.elements if rows == 0 else parameter.elements / rows * -(-rows // ranks) * ranks
        whole += elements
        root += elements if index in owned else 0.0
    return whole, root


@everywhere
@given(setups(system="fsdp2"))
def test_fsdp2_gathers_all_twice_but_the_root_and_reduces_all_once(setup):
    ranks = setup.n if setup.shard_size is None else min(setup.n, setup.shard_size)
    assume(ranks > 1)
    whole, root = padded(setup, ranks)
    reshard = setup.reshard_after_forward
    kept = reshard is False or (reshard is not True and reshard == 1)
    again = 0.0 if kept else whole - root if setup.reshard_after_forward is None else whole
    if isinstance(setup.reshard_after_forward, int) and setup.reshard_after_forward > 1:
        assume(setup.reshard_after_forward >= ranks)  # padded otherwise
    reductions = setup.accumulation if setup.sync_every_micro_batch else 1
    gathered = setup.accumulation * (whole + again)
    assert moved(setup, 3, "all_gather") == pytest.approx(gathered, rel=CLOSE)
    assert moved(setup, 2, "all_gather") == pytest.approx(setup.accumulation * whole, rel=CLOSE)
    for stage in (2, 3):
        assert moved(setup, stage, "reduce_scatter") == pytest.approx(reductions * whole, rel=CLOSE)
        shards = reductions * whole / ranks if ranks < setup.n else 0.0
        assert moved(setup, stage, "all_reduce") == pytest.approx(shards, rel=CLOSE)


@everywhere
@given(setups(system="fsdp2"))
def test_ddp_reduces_all_gradients_once_and_the_sharded_optimizer_sends_all_parameters(setup):
    assume(setup.n > 1)
    whole, _ = sizes(setup)
    reductions = setup.accumulation if setup.sync_every_micro_batch else 1
    for stage in (0, 1):
        assert moved(setup, stage, "all_reduce") == pytest.approx(reductions * whole, rel=CLOSE)
    assert moved(setup, 1, "broadcast") == pytest.approx(whole, rel=CLOSE)


@everywhere
@given(setups(system="deepspeed"))
def test_deepspeed_reduces_every_gradient_as_often_as_its_stage_says(setup):
    assume(setup.n > 1)
    whole, _ = sizes(setup)
    assume(whole > 64)
    times = (1, 1, setup.accumulation, setup.accumulation)
    for stage in STAGES:
        reduced = sum(moved(setup, stage, op) for op in ("all_reduce", "reduce", "reduce_scatter"))
        # shards of equal length: of every parameter at stage 3, of all together before
        slack = setup.n * 64.0 if stage == 3 else 2.0 * setup.n
        assert times[stage] * whole * (1 - CLOSE) - 4.0 <= reduced
        assert reduced <= times[stage] * (whole * (1 + CLOSE) + slack)


@everywhere
@given(setups())
def test_the_summary_is_made_of_the_rows(setup):
    held, sent = defaultdict(float), defaultdict(float)
    for row in memory_rows(setup):
        if row["device"] == "gpu":
            held[row["stage"], row["when"]] += row["nbytes"]
    rows = communication_rows(setup)
    for row in rows:
        sent[row["stage"], "wire"] += row["wire_bytes"]
        sent[row["stage"], "messages"] += row["count"]
        assert 0.0 <= row["between_bytes"] <= row["wire_bytes"]
        assert 0.0 <= row["latency"] <= row["seconds"] * (1 + CLOSE)
        assert 1 < row["ranks"] <= setup.n
    for row in summary(setup):
        stage = row["stage"]
        assert row["rest"] == pytest.approx(held[stage, "rest"], rel=1e-12)
        assert row["peak"] == pytest.approx(held[stage, "rest"] + held[stage, "peak"], rel=1e-12)
        assert row["wire_bytes"] == pytest.approx(sent[stage, "wire"], rel=1e-12)
        assert row["messages"] == sent[stage, "messages"]


@everywhere
@given(setups())
def test_what_falls_is_told_from_what_does_not(setup):
    assume(1 < setup.n <= 64)
    padding = 20.0 * (64 + 8 * setup.n)  # bytes of all states, of up to an element per parameter and rank
    for stage in STAGES:
        here = at_rest(resized(setup, setup.n, stage), stage)
        there = at_rest(resized(setup, 4 * setup.n, stage), stage)
        floor = nbytes_of([part for part in here if not part.falls])
        assert nbytes_of(there) <= nbytes_of(here) * (1 + CLOSE) + padding
        assert floor * (1 - CLOSE) <= nbytes_of(there)


@everywhere
@given(setups())
def test_every_sentence_is_filled_in(setup):
    texts = [*explain(setup).values(), advice(setup)["text"], *(row["why"] for row in differences(setup))]
    for text in texts:
        assert not {"{", "}"} & set(text)
        assert "nan" not in text.replace("finance", "")


@everywhere
@given(setups())
def test_differences_add_up(setup):
    rows = {(row["part"], row["when"]): row for row in differences(setup)}
    if setup.compare in (None, setup.system):
        assert rows == {}
        return
    for side, system in (("first", setup.system), ("second", setup.compare)):
        own = setup.but(system=system)
        row = summary(own)[setup.stage]
        if ("peak", "peak") in rows:
            assert rows["peak", "peak"][side] == row["peak"]
        top = {part.state: part.nbytes for part in on_top(step_of(own, setup.stage))}
        for (part, when), found in rows.items():
            if when == "peak" and part != "peak":
                assert found[side] == top.get(part, 0.0)


def test_shards_inside_a_node_trade_memory_for_bytes_between_nodes():
    # FSDP paper, section 3.2.2: hybrid sharding sends an all-reduce of M/G between hosts, not 3 M
    plain = Setup(system="fsdp2", n=64, gpus_per_node=8, param_dtype="float32")
    hybrid = plain.but(shard_size=8)
    whole, inside = summary(plain)[3], summary(hybrid)[3]
    assert inside["rest"] == pytest.approx(8 * whole["rest"], rel=1e-12)
    M = 4.0 * plain.N
    assert inside["between_bytes"] == pytest.approx(2 * M / 8 * (8 - 1) / 8, rel=1e-9)
    assert whole["between_bytes"] == pytest.approx(3 * M * 63 / 64, rel=1e-9)


def test_what_goes_between_nodes_is_told_and_compared():
    hybrid = Setup(system="fsdp2", n=64, shard_size=8, layers=4)
    # 2 x 4 bytes x 7.5e9 / 8 shards x 7/8, half of it sent: the all-reduce of one shard among 8 replicas
    assert "6.1 GiB of it goes between nodes." in movement(hybrid, summary(hybrid)[3])
    step = step_of(hybrid, 3)
    assert rings(hybrid, step) == "thin: 450 GB/s over NVLink 4 · 50.0 GB/s over InfiniBand NDR"

    # where all of a step crosses nodes, or none of it does, there is nothing to tell apart
    for setup in (hybrid.but(shard_size=None), hybrid.but(n=8, shard_size=None)):
        assert "between nodes" not in movement(setup, summary(setup)[3])
        assert "thin" not in rings(setup, step_of(setup, 3))
    assert rings(Setup(n=1), step_of(Setup(n=1), 3)) == "one GPU"

    apart = [row for row in differences(hybrid.but(compare="paper")) if row["part"] == "between_bytes"]
    assert [row["first"] for row in apart] == [summary(hybrid)[3]["between_bytes"]]


def test_a_ring_of_replicas_shares_the_ports_of_its_node():
    setup = Setup(system="fsdp2", n=64, gpus_per_node=8, link="InfiniBand-NDR")
    port = 50e9
    assert cluster_of(setup, 8, 8).bandwidth == port
    assert cluster_of(setup, 64).bandwidth == 8 * port
    assert cluster_of(setup, 4, 2).leaves is False
    assert cluster_of(setup, 16, 4).bandwidth == pytest.approx(8 * port / 4)
