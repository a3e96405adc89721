"""DDP and ZeroRedundancyOptimizer against recordings of torch 2.13 (tests/golden/ddp)."""

import json
from pathlib import Path

import pytest
from tinygpt import tinygpt_shapes

from zerowidget import Setup
from zerowidget.layout import layout_of, ready_order
from zerowidget.systems.fsdp2 import ddp, parts
from zerowidget.timeline import schedule

GOLDEN = Path(__file__).parent / "golden" / "ddp"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.json"))
SHARDED = [name for name in NAMES if name.startswith("zero1")]


def recorded(name):
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def recorded_setup(record, **values):
    """The setup, stage and caps of a recording."""
    config = record["config"]
    shapes = tinygpt_shapes(*(config[key] for key in ("L", "h", "vocab", "seq")), tied=bool(config["tied"]))
    given = {"n": record["world_size"], "accumulation": config["accum"], "sync_every_micro_batch": False}
    setup = Setup.from_shapes(shapes, system="fsdp2", recipe="adam-fp32", **given | values)
    caps = (float(config["cap"]),) * 2 if config["cap"] else ddp.DEFAULT_CAPS
    return setup, int(config["zero1"]), caps


def collectives_in(ops):
    """The collectives of a program as a recording tells them."""
    passes = [op.phase for op in ops if op.stream == "compute"]
    assert passes[-1] == "step"
    return [
        (op.phase, op.op, op.ranks, op.dtype, op.elements, op.nbytes) for op in ops if op.stream != "compute"
    ]


PHASES = {"bwd": "backward", "step": "step"}


@pytest.mark.parametrize("name", NAMES)
def test_collectives_are_those_recorded(name):
    record = recorded(name)
    setup, stage, caps = recorded_setup(record)
    told = collectives_in(ddp.program(setup, stage, caps))
    assert told == [
        (PHASES[c["phase"].split(".")[-1]], c["op"], c["n"], c["dtype"], c["in_numel"], c["in_bytes"])
        for c in record["collectives"]
    ]
    assert told


@pytest.mark.parametrize("name", [name for name in NAMES if "nohook" not in name])
def test_buckets_hold_the_parameters_recorded(name):
    record = recorded(name)
    setup, _, caps = recorded_setup(record)
    layout = layout_of(setup)
    buckets = ddp.buckets_of(layout, parts.parts_of(layout), 4.0, caps)
    told = [[layout.parameters[index].name for index in bucket.parameters] for bucket in buckets]
    assert told == [event["params"] for event in record["events"] if event["kind"] == "bucket"]


@pytest.mark.parametrize("name", NAMES)
def test_buckets_are_reduced_in_the_backward_pass_that_completes_them(name):
    """The recorded all-reduce stands after the start of that part's backward pass, before the next starts."""
    record = recorded(name)
    setup, stage, caps = recorded_setup(record)
    ops = ddp.program(setup, stage, caps)
    told = [ops[op.waits_for[-1]].group for op in ops if op.op == "all_reduce"]
    block, found = "", []
    for event in record["events"]:
        if event["kind"] == "compute" and event["edge"] == "start":
            block = event["block"]
        elif event["kind"] == "coll" and event["op"] == "all_reduce":
            found.append(block.replace("blocks.", "layer ") if block.startswith("blocks") else "root")
    assert told == found


@pytest.mark.parametrize("name", NAMES)
def test_the_most_loaded_rank_holds_what_was_measured(name):
    record = recorded(name)
    setup, stage, _ = recorded_setup(record)
    held = {part.state: part for part in ddp.hold(setup, stage, bool(record["config"]["view"]))}
    ranks = record.get("memory_after_step_all_ranks", [record["memory_after_step"]])
    assert held["parameters"].nbytes == max(rank["param_bytes"] for rank in ranks)
    assert held["gradients"].nbytes == max(rank["grad_bytes"] for rank in ranks)
    told = held["momentum"].nbytes + held["variance"].nbytes
    assert told == max(rank["optim_bytes"] for rank in ranks)
    # the storages that gradients are views of are the buckets: then there are none beside them
    assert ("buckets" in held) is not bool(record["config"]["view"])


@pytest.mark.parametrize("name", SHARDED)
def test_zero_redundancy_optimizer_spreads_whole_parameters(name):
    record = recorded(name)
    setup, _, _ = recorded_setup(record)
    parameters = layout_of(setup).parameters
    owned = ddp.owned_by_rank(parameters, setup.n)
    told = [8.0 * sum(parameters[index].elements for index in members) for members in owned]
    assert told == [rank["optim_bytes"] for rank in record["memory_after_step_all_ranks"]]
    roots = [(rank, parameters[index].elements) for rank, members in enumerate(owned) for index in members]
    assert roots == [(c["root_rank"], c["in_numel"]) for c in record["collectives"] if c["op"] == "broadcast"]


def test_a_rank_without_parameters_is_left_out():
    parameters = layout_of(Setup.from_shapes({"a.weight": (4, 2), "b.weight": (3, 5)}, n=7)).parameters
    assert ddp.owned_by_rank(parameters, 7) == [[1], [0]]
    assert ddp.heaviest(parameters, [[1], [0]]) == 15.0


def test_a_shared_matrix_is_reduced_after_its_last_use():
    """Its gradient is complete when the embedding's backward pass is, at the very end."""
    setup = Setup.from_shapes(tinygpt_shapes(tied=True), system="fsdp2", recipe="adam-fp32")
    layout = layout_of(setup)
    names = [layout.parameters[index].name for mine in reversed(ready_order(layout)) for index in mine]
    assert names[:2] == ["norm.weight", "norm.bias"]
    assert names[-2:] == ["pos.weight", "tok.weight"]
    assert len(names) == len(set(names)) == len(layout.parameters)


def test_every_micro_step_reduces_when_told_so():
    record = recorded("ddp_ws2_gloo_accum2")
    setup, stage, caps = recorded_setup(record)
    often = ddp.program(setup.but(sync_every_micro_batch=True), stage, caps)
    seldom = ddp.program(setup, stage, caps)
    assert collectives_in(often) == 2 * collectives_in(seldom)
    spans = schedule(often)
    second = [span for span in spans if span.op.op == "forward"][6]  # after embedding, four layers and head
    reduced = [span for span in spans if span.op.op == "all_reduce"][1]
    assert second.start >= reduced.end  # a backward pass ends when its gradients are reduced


def test_one_rank_sends_nothing():
    setup = Setup(system="fsdp2", n=1)
    for stage in (0, 1):
        assert {op.stream for op in ddp.program(setup, stage)} == {"compute"}


def test_a_master_copy_is_the_parameter_itself():
    """2 + 2 + 12 bytes of the paper's recipe are 4 + 4 + 8 here, and the reducer's buckets another 4."""
    held = ddp.hold(Setup(system="fsdp2", recipe="adam-mixed"), 0)
    assert [(part.state, part.each) for part in held] == [
        ("parameters", 4.0),
        ("gradients", 4.0),
        ("momentum", 4.0),
        ("variance", 4.0),
        ("buckets", 4.0),
    ]
