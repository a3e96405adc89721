"""DeepSpeed 0.19.8 against recordings of it: bytes at rest of all stages, collectives of stages 0-2.

A recording is a run on CPUs with gloo; ``tests/golden/deepspeed`` holds its collectives in issue order, and
the bytes that its objects held. Test names say what DeepSpeed does.
"""

import json
import random
from pathlib import Path

import pytest
from tinygpt import tinygpt_shapes

from zerowidget.comms import seconds, wire_bytes
from zerowidget.program import collected
from zerowidget.specs import Setup, cluster_of
from zerowidget.systems import deepspeed
from zerowidget.systems.deepspeed.plan import plan_of
from zerowidget.systems.deepspeed.stage3 import program_of
from zerowidget.timeline import live_bytes, schedule

GOLDEN = Path(__file__).parent / "golden"
RECORDINGS = sorted(path.stem for path in (GOLDEN / "deepspeed").glob("*.json"))
PHASES = {"fwd": "forward", "bwd": "backward", "step": "step"}
KNOBS = (
    "stage3_prefetch_bucket_size",
    "stage3_max_live_parameters",
    "stage3_max_reuse_distance",
    "stage3_param_persistence_threshold",
    "reduce_bucket_size",
    "overlap_comm",
    "use_multi_rank_bucket_allreduce",
    "zero_hpz_partition_size",
)


def recording(name):
    return json.loads((GOLDEN / "deepspeed" / f"{name}.json").read_text(encoding="utf-8"))


def setup_of(recorded):
    """The setup that was recorded."""
    made, zero = recorded["config"], recorded["ds_config"]["zero_optimization"]
    shapes = tinygpt_shapes(made["L"], made["h"], made["vocab"], made["seq"], bool(made["tied"]))
    values = {knob: zero[knob] for knob in KNOBS if knob in zero}
    values["param_dtype"] = {"bf16": "bfloat16", "fp32": "float32"}[made["dtype"]]
    values["grad_accum_dtype"] = {"fp32": "float32"}.get(made.get("gadt"))
    values["offload"] = "cpu" if made["offload"] else "none"
    values |= {"accumulation": made["accum"], "recompute": bool(made["ac"]), "n": recorded["world_size"]}
    return Setup.from_shapes(shapes, system="deepspeed", **values)


def program(recorded):
    setup, stage = setup_of(recorded), recorded["config"]["stage"]
    if stage == 3 and recorded["config"]["leaf"]:
        return program_of(plan_of(setup, leaves=True))
    return deepspeed.program(setup, stage)


def phase_of(recorded_phase):
    """The phase of "mb1.bwd" is backward: micro-steps follow each other in issue order anyway."""
    return PHASES[recorded_phase.rpartition(".")[2]]


def test_all_recordings_are_there():
    assert len(RECORDINGS) == 39


@pytest.mark.parametrize("name", RECORDINGS)
def test_collectives_in_issue_order(name):
    recorded = recording(name)
    expected = [
        (phase_of(op["phase"]), op["op"], op["n"], op["dtype"], max(op["in_numel"], op["out_numel"]))
        for op in recorded["collectives"]
    ]
    mine = [
        (op.phase, op.op, op.ranks, op.dtype, op.elements)
        for op in program(recorded)
        if op.stream != "compute"
    ]
    assert mine == expected


# What is held


def rest_of(setup, stage):
    """Bytes at rest by state and device, the optimizer's moments together."""
    rest = {}
    for held in deepspeed.hold(setup, stage):
        state = "moments" if held.state in ("momentum", "variance") else held.state
        rest[state, held.device] = rest.get((state, held.device), 0.0) + held.nbytes
    return rest


def recorded_rest(recorded):
    """The same from a recording; its optimizer was on a CPU "device" when offloaded, the rest on a CPU too."""
    stage, made = recorded["config"]["stage"], recorded["config"]
    after = next(held for held in recorded["memory_rank0"] if held["when"] == "after_backward_before_step")
    owned = after["optimizer_attr_storage_bytes_first_owner_wins"]
    device = "cpu" if made["offload"] else "gpu"
    rest = {("moments", device): after["optim_state_bytes"]}
    if stage == 0:
        rest["parameters", "gpu"] = after["module_param_bytes"]
        rest["gradients", "gpu"] = after["module_grad_bytes"]
        if made["dtype"] == "bf16":
            rest["master", "gpu"] = after["base_param_group_bytes"]
    elif stage == 3:
        rest["parameters", "gpu"] = after["ds_tensor_bytes"]
        rest["gradients", device] = owned["grad_partitions_flat_buffer"]
        rest["master", device] = owned["fp32_partitioned_groups_flat"]
        rest["buckets", "gpu"] = owned["ipg_buckets"]
        if after["persistent_full_bytes"]:
            rest["gathered", "gpu"] = after["persistent_full_bytes"]
        if made["offload"]:
            rest["copies", "cpu"] = recorded["inner_optimizer_step"]["inner_grad_bytes"]
    else:
        rest["parameters", "gpu"] = after["module_param_bytes"]
        rest["master", device] = after["base_param_group_bytes"]
        if made["offload"]:
            rest["gradients", "cpu"] = owned["offload_gradient_dict"]
            rest["copies", "cpu"] = owned["param_buffer_of_bit16_for_cpu_offload_groups"]
            rest["buckets", "cpu"] = owned["temp_grad_buffer_for_cpu_offload"]
            rest["buckets", "gpu"] = owned["temp_grad_buffer_for_gpu_offload"]
        elif after["wrapper"] == "BF16_Optimizer":
            rest["gradients", "gpu"] = after["module_grad_bytes"]
            rest["main_gradients", "gpu"] = owned["non_expert_gradients"]
        else:
            rest["gradients", "gpu"] = owned["averaged_gradients"]
    return rest


@pytest.mark.parametrize("name", RECORDINGS)
def test_bytes_at_rest(name):
    recorded = recording(name)
    assert rest_of(setup_of(recorded), recorded["config"]["stage"]) == recorded_rest(recorded)


STEPPED = [name for name in RECORDINGS if "inner_optimizer_step" in recording(name)]


@pytest.mark.parametrize("name", STEPPED)
def test_gradients_that_the_inner_optimizer_sees(name):
    """Copies made for the step: gradients joined in one tensor, and cast unless they are float32 already."""
    recorded = recording(name)
    setup, stage = setup_of(recorded), recorded["config"]["stage"]
    seen = recorded["inner_optimizer_step"]["inner_grad_bytes"]
    optimizer = next(op for op in program(recorded) if op.op == "optimizer")
    copied = sum(nbytes for _, nbytes in optimizer.takes)
    assert optimizer.takes == optimizer.gives
    if setup.offload == "cpu":
        held = rest_of(setup, stage)
        assert copied == 0
        assert seen == held["gradients" if stage == 2 else "copies", "cpu"]
    elif stage == 0 and setup.param_dtype == "float32":
        assert (copied, seen) == (0, rest_of(setup, stage)["gradients", "gpu"])
    elif stage < 3 and setup.grad_accum_dtype == "float32":
        # a view of the whole at stage 1 (BF16_Optimizer), the rank's share at stage 2
        held = rest_of(setup, stage)
        share = held["main_gradients", "gpu"] / setup.n if stage == 1 else held["gradients", "gpu"]
        assert (copied, seen) == (0, share)
    elif stage == 0 or setup.param_dtype == "float32" or setup.grad_accum_dtype == "float32":
        assert copied == seen
    else:
        assert copied == 1.5 * seen  # two bytes of the joined tensor beside four of the cast one


def test_the_step_asks_for_what_a_user_ran_out_of():
    """LlamaFactory 1158: 12.94 GiB asked for with 77.65 GiB allocated, 13.9B parameters on 4 GPUs, stage 2."""
    setup = Setup(system="deepspeed", N=13_896_668_160, n=4, layers=40, stage=2)
    resting, ops = rest_of(setup, 2), collected_rest(setup)
    cast = 4 * setup.N / 4
    assert cast / 2**30 == pytest.approx(12.94, abs=0.01)
    assert (sum(resting.values()) + ops - cast) / 2**30 == pytest.approx(77.65, abs=0.01)


def collected_rest(setup):
    """What the optimizer step takes on top, in bytes."""
    optimizer = next(op for op in deepspeed.program(setup, setup.stage) if op.op == "optimizer")
    return sum(nbytes for _, nbytes in optimizer.takes)


def live_at(ops, index):
    """What is held on top of rest just before an op starts."""
    spans = schedule(ops)
    live = [entry for entry in live_bytes(spans) if entry.time <= spans[index].start]
    return live[-1]


def second_forward(ops):
    """The index of the op that begins the second micro-step."""
    backward = next(index for index, op in enumerate(ops) if op.op == "backward")
    return next(index for index, op in enumerate(ops) if index > backward and op.op == "forward")


@pytest.mark.parametrize("name", ["ds_s1_bf16_ws2_accum2_mem", "ds_s2_bf16_ws2_accum2_mem"])
def test_bytes_between_micro_steps(name):
    """Stage 1 keeps whole gradients and its bucket, stage 2 neither: only its share, which is at rest."""
    recorded = recording(name)
    between = recorded["memory_rank0"][0]
    assert between["when"] == "after_backward_of_mb0"
    owned = between["optimizer_attr_storage_bytes_first_owner_wins"]
    ops = program(recorded)
    live = live_at(ops, second_forward(ops))
    assert live.whole_gradients == between["module_grad_bytes"]
    assert live.buckets == owned.get("ipg_buckets", 0)
    if recorded["config"]["stage"] == 2:
        rest = rest_of(setup_of(recorded), 2)
        assert rest["gradients", "gpu"] == owned["all_grad_tensors"]


def bucket_bytes(**values):
    """What the buffers of the bucket take in the first op of the backward pass of stage 2."""
    shapes = {f"layers.{layer}.weight": (1024, 1024) for layer in range(4)}
    setup = Setup.from_shapes(shapes, n=4, system="deepspeed", param_dtype="float16", **values)
    buffers = {}
    for op in deepspeed.program(setup, 2):
        if op.op == "backward":
            for state, nbytes in op.takes:
                buffers[state] = max(buffers.get(state, 0.0), nbytes)
    return max(buffers.values())


@pytest.mark.parametrize(
    ("change", "saved"),
    [
        ({"overlap_comm": False}, 954),
        ({"reduce_bucket_size": 10**8}, 1527),
        ({"reduce_bucket_size": 10**7}, 1868),
        ({"contiguous_gradients": False}, 1905),
    ],
    ids=str,
)
def test_what_a_user_saved_by_changing_buckets(change, saved):
    """Measured in MiB by a user who asked DeepSpeed why ZeRO-2 used more memory than ZeRO-1.

    In fp16, beginning with 5e8 elements and overlap.

    What is left of gradients without a buffer is one matrix of 2 MiB here.
    """
    before = bucket_bytes(overlap_comm=True)
    after = bucket_bytes(**{"overlap_comm": True, **change})
    assert (before - after) / 2**20 == pytest.approx(saved, abs=2.5)


def test_the_flat_buffer_is_padded_to_an_even_share_for_each_rank():
    """By hand, 10 elements on 3 ranks: 12, 4 each (stage_1_and_2.py: aligned to 2 n elements)."""
    setup = Setup.from_shapes({"layers.0.a": (7,), "layers.0.b": (3,)}, n=3, system="deepspeed")
    rest = rest_of(setup, 1)
    assert rest["parameters", "gpu"] == 2 * 12
    assert rest["master", "gpu"] == 4 * 4
    assert rest["gradients", "gpu"] == 2 * 7  # "a" reaches into the first share: kept whole
    gather = deepspeed.program(setup, 1)[-1]
    assert (gather.op, gather.elements) == ("all_gather", 12.0)


def test_stage_3_pads_every_parameter():
    """By hand, 7 and 3 elements on 4 ranks: chunks of 2 and 1 (partition_parameters.py)."""
    setup = Setup.from_shapes({"layers.0.a": (7,), "layers.0.b": (3,)}, n=4, system="deepspeed")
    assert rest_of(setup, 3)["master", "gpu"] == 4 * 3


def test_gradients_on_the_host_are_kept_whole_while_they_accumulate():
    """Source: ``async_accumulate_grad_in_cpu_via_gpu`` allocates every parameter of the share whole."""
    setup = Setup.from_shapes({"layers.0.a": (7,), "layers.0.b": (3,)}, n=3, offload="cpu", accumulation=2)
    assert rest_of(setup, 2)["whole_gradients", "cpu"] == 2 * 7


# What is done


def only(ops, *names):
    return [op for op in ops if op.op in names]


def stack(*sizes, **values):
    """A model of layers with one matrix each."""
    shapes = {f"layers.{layer}.weight": (size, 1) for layer, size in enumerate(sizes)}
    return Setup.from_shapes(shapes, system="deepspeed", **values)


def test_a_parameter_larger_than_the_bucket_is_cut_at_the_borders_of_shares():
    """By hand, 16 elements on 4 ranks, a bucket of 6: shares of 4 add up to 8 before they exceed it."""
    setup = stack(16, n=4, reduce_bucket_size=6)
    assert [
        op.elements for op in only(deepspeed.program(setup, 2), "all_reduce") if op.phase == "backward"
    ] == [
        8.0,
        8.0,
    ]


def test_reductions_to_owners_are_cut_at_the_borders_of_shares():
    """By hand: the bucket 6 + 10 on 2 ranks of 8 goes to the second rank first, which owns what is first."""
    setup = stack(6, 10, n=2, use_multi_rank_bucket_allreduce=False, reduce_bucket_size=16)
    reduced = only(deepspeed.program(setup, 2), "reduce")
    assert [op.elements for op in reduced] == [8.0, 8.0]
    assert {op.group for op in reduced} == {"bucket 0"}


def test_stage_0_begins_a_new_reduction_after_5e8_elements():
    """By hand, engine.py: 3e8 + 3e8 is past 5e8, 3e8 remains."""
    setup = stack(3 * 10**8, 3 * 10**8, 3 * 10**8, n=2)
    reduced = [op.elements for op in only(deepspeed.program(setup, 0), "all_reduce")]
    assert reduced == [6e8, 3e8]


def test_stage_1_reduces_in_the_order_of_the_model_or_as_gradients_are_ready():
    """The order of the model is recorded; with ``overlap_comm`` hooks reduce as at stage 2 (source)."""
    shapes, values = tinygpt_shapes(), {"n": 2, "reduce_bucket_size": 500_000}
    plain = Setup.from_shapes(shapes, **values)
    overlapping = plain.but(overlap_comm=True)

    def sizes(setup, stage):
        ops = only(deepspeed.program(setup, stage), "all_reduce")
        return [op.elements for op in ops if op.phase == "backward"]

    assert sizes(overlapping, 1) == sizes(plain, 2)
    assert sizes(overlapping, 1) != sizes(plain, 1)


@pytest.mark.parametrize("stage", [1, 2])
def test_without_overlap_reductions_and_compute_take_turns(stage):
    setup = Setup.from_shapes(tinygpt_shapes(), n=2, reduce_bucket_size=500_000)
    spans = schedule(deepspeed.program(setup, stage))
    total = 0.0
    for span in spans:
        total = total + span.op.seconds
    assert max(span.end for span in spans) == pytest.approx(total)


def test_with_overlap_compute_waits_for_the_reduction_before_the_last():
    """By hand, two buffers of one layer: 1 s of backward for each layer, 2 s for each reduction.

    The gradient of the third layer, ready at 2, sends off that of the fourth: 2-4. The gradient of the
    second, ready at 3, sends off the next: 4-6; compute goes on when the first is reduced, at 4. The
    gradient of the first layer, ready at 5, sends off one more, and the end of the pass the last.
    """
    setup = stack(8, 8, 8, 8, n=2, reduce_bucket_size=8, overlap_comm=True)
    ops = deepspeed.program(setup, 2)
    lengths = {"forward": 0.0, "backward": 1.0, "all_reduce": 2.0}
    spans = schedule([op._replace(seconds=lengths.get(op.op, 0.0)) for op in ops if op.phase != "step"])
    times = [(span.op.op, span.start, span.end) for span in spans if span.op.op != "forward"]
    assert times == [
        ("backward", 0.0, 1.0),
        ("backward", 1.0, 2.0),
        ("all_reduce", 2.0, 4.0),
        ("backward", 2.0, 3.0),
        ("all_reduce", 4.0, 6.0),
        ("backward", 4.0, 5.0),
        ("all_reduce", 6.0, 8.0),
        ("all_reduce", 8.0, 10.0),
    ]


def test_the_next_micro_step_waits_for_the_last_reduction():
    """Source: the epilogue of every backward pass synchronizes."""
    setup = stack(8, 8, n=2, overlap_comm=True, accumulation=2)
    ops = deepspeed.program(setup, 2)
    assert max(schedule(ops)[second_forward(ops)].op.waits_for) == second_forward(ops) - 1


def test_stages_1_and_2_move_half_again_as_much_as_the_paper_says():
    """An all-reduce and an all-gather: ring bytes 3 x 2N (n-1)/n, where the paper has 2 (recorded: 3)."""
    setup = Setup(N=7.5e9, n=64, system="deepspeed")
    for stage in (1, 2):
        kinds = [kind for kind in collected(deepspeed.program(setup, stage)) if kind.elements > 2]
        sent = sum(wire_bytes(kind.op, kind.nbytes, kind.ranks) for kind in kinds)
        assert sent == pytest.approx(3 * 2 * 7.5e9 * 63 / 64)


def test_float16_checks_for_overflow_first():
    """Source: stage3.py, ``_overflow_check_and_loss_scale_update``; stages 1 and 2 as recorded for bfloat16."""

    def scalars(stage):
        setup = stack(8, 8, n=2, param_dtype="float16")
        return [op.dtype for op in deepspeed.program(setup, stage) if op.elements == 1.0]

    assert [scalars(stage) for stage in (1, 2, 3)] == [["uint8", "float32"]] * 2 + [["uint8", "float64"]]


def test_fields_without_effect_have_none():
    """``allgather_bucket_size``: torch has all_gather_into_tensor. ``offload`` at stage 0."""
    setup = Setup.from_shapes(tinygpt_shapes(), n=4)
    for stage in (1, 2):
        changed = setup.but(allgather_bucket_size=2)
        assert deepspeed.program(changed, stage) == deepspeed.program(setup, stage)
    assert deepspeed.hold(setup.but(offload="cpu"), 0) == deepspeed.hold(setup, 0)


def test_whole_gradients_pile_up_at_stage_1():
    """By hand, 24 parameters of 16 bits: all 48 bytes are there, then leave with the bucket they went into."""
    setup = stack(8, 8, 8, n=2, reduce_bucket_size=8)
    ops = deepspeed.program(setup, 1)
    assert max(entry.whole_gradients for entry in live_bytes(schedule(ops))) == 48.0
    reduced = [index for index, op in enumerate(ops) if op.group.startswith("bucket")]
    assert [live_at(ops, index).whole_gradients for index in reduced] == [32.0, 16.0, 0.0]


# Everything a user can say


def shaken(seed):
    """A setup with all fields of DeepSpeed at random."""
    draw = random.Random(seed)
    n = draw.choice([1, 2, 3, 8, 64])
    values = {
        "n": n,
        "param_dtype": draw.choice(["float32", "bfloat16", "float16"]),
        "grad_accum_dtype": draw.choice([None, "float32"]),
        "offload": draw.choice(["none", "cpu"]),
        "accumulation": draw.choice([1, 2, 3]),
        "recompute": draw.choice([False, True]),
        "overlap_comm": draw.choice([None, False, True]),
        "contiguous_gradients": draw.choice([False, True]),
        "use_multi_rank_bucket_allreduce": draw.choice([False, True]),
        "reduce_bucket_size": draw.choice([1, 1000, 500_000, 5 * 10**8]),
        "stage3_prefetch_bucket_size": draw.choice([0, 1, 10**5, 5 * 10**7]),
        "stage3_max_live_parameters": draw.choice([0, 10**6, 10**9]),
        "stage3_max_reuse_distance": draw.choice([0, 10**6, 10**9]),
        "stage3_param_persistence_threshold": draw.choice([0, 10**5]),
        "zero_hpz_partition_size": draw.choice([size for size in (1, 2, 8) if n % size == 0 or size > n]),
        "zero_quantized_weights": draw.choice([False, True]),
        "zero_quantized_gradients": draw.choice([False, True]),
    }
    if draw.random() < 0.5:
        return Setup.from_shapes(tinygpt_shapes(L=2, tied=draw.random() < 0.5), system="deepspeed", **values)
    size = draw.choice([1.0, 12345.0, 7.5e9])
    return Setup(N=size, layers=draw.choice([1, 3]), system="deepspeed", **values)


@pytest.mark.parametrize("seed", range(120))
def test_every_setup_has_a_program_that_frees_what_it_takes(seed):
    setup = shaken(seed)
    for stage in range(4):
        ops = deepspeed.program(setup, stage)
        taken = sorted(buffer for op in ops for buffer in op.takes)
        given = sorted(buffer for op in ops for buffer in op.gives)
        assert taken == given
        assert all(nbytes > 0.0 for _, nbytes in taken)
        lowest = min((entry.nbytes for entry in live_bytes(schedule(ops))), default=0.0)
        assert lowest >= -1e-6 * setup.N
        assert (setup.n > 1) == any(op.stream != "compute" for op in ops)
        assert all(before < index for index, op in enumerate(ops) for before in op.waits_for)
        computed = [op.op for op in ops if op.stream == "compute"]
        assert computed.count("optimizer") == 1


@pytest.mark.parametrize("seed", range(40))
def test_every_gradient_is_reduced_once_per_reduction(seed):
    """Stages 0 and 1 once a step, 2 and 3 every micro-step; nothing is lost at borders and in pieces."""
    setup = shaken(seed)
    if setup.n == 1 or setup.offload == "cpu":
        return
    for stage in range(4):
        times = setup.accumulation if stage >= 2 else 1
        moved = sum(
            op.elements
            for op in deepspeed.program(setup, stage)
            if op.phase == "backward" and op.op in ("reduce", "all_reduce", "reduce_scatter")
        )
        slack = 64 * 60 if setup.shapes is not None else 0  # padding: less than n per parameter
        assert setup.N * times * (1 - 1e-9) <= moved <= (setup.N + slack) * times * (1 + 1e-9)


@pytest.mark.parametrize(
    "values",
    [
        {"N": 1.0, "n": 64},
        {"N": 1e16, "n": 64},
        {"N": 7.5e9, "n": 64, "layers": 1024},
        {"N": 7.5e9, "n": 10_000_000, "use_multi_rank_bucket_allreduce": False},
        {"N": 1e16, "n": 10_000_000, "reduce_bucket_size": 1},
    ],
    ids=str,
)
def test_extremes_stay_readable(values):
    """The program never grows past a few ops for each matrix and share that is drawn."""
    setup = Setup(system="deepspeed", **values)
    for stage in range(4):
        assert deepspeed.hold(setup, stage)
        assert len(deepspeed.program(setup, stage)) < 6 * 4 * setup.layers + 4000


# ZeRO++


def crossing(setup, phase, op):
    """Bytes of one kind of collective that a rank sends round rings that leave a node."""
    kinds = [kind for kind in collected(deepspeed.program(setup, 3)) if (kind.phase, kind.op) == (phase, op)]
    return sum(wire_bytes(kind.op, kind.nbytes, kind.ranks) for kind in kinds if kind.leaves)


ON_DEMAND = {
    "stage3_prefetch_bucket_size": 0,
    "stage3_max_reuse_distance": 0,
    "stage3_param_persistence_threshold": 0,
}
PLUS = {"zero_quantized_weights": True, "zero_quantized_gradients": True, "zero_hpz_partition_size": 8}


@pytest.mark.parametrize(("strategy", "values"), [("ZeRO (stage 3)", {}), ("ZeRO++", PLUS)])
def test_zeropp_crosses_nodes_a_quarter_as_much(strategy, values):
    """In units of the model's bytes, (n-1)/n aside; scales of quantized blocks are not counted."""
    table = json.loads((GOLDEN / "papers" / "zeropp_comm_volume.json").read_text(encoding="utf-8"))
    expected = next(row[1:] for row in table["rows"] if row[0] == strategy)
    setup = Setup(N=7.5e9, n=4096, system="deepspeed", **ON_DEMAND, **values)
    unit = 2 * 7.5e9 * (setup.n - 1) / setup.n
    mine = [
        crossing(setup, "forward", "all_gather") / unit,
        crossing(setup, "backward", "all_gather") / unit,
        crossing(setup, "backward", "reduce_scatter") / unit,
    ]
    assert [*mine, sum(mine)] == pytest.approx(expected)


def test_hpz_costs_a_second_shard_in_every_node():
    """16N/n + 2N/h (zeropp_hpz_memory.json, from the code): the second part while the step runs."""
    table = json.loads((GOLDEN / "papers" / "zeropp_hpz_memory.json").read_text(encoding="utf-8"))
    formulas = dict(table["rows"])
    assert formulas["total"] == "16*psi/Nd + 2*psi/h"
    setup = Setup(N=7.5e9, n=64, system="deepspeed", zero_hpz_partition_size=8, **ON_DEMAND)
    rest = rest_of(setup, 3)
    states = sum(nbytes for (state, _), nbytes in rest.items() if state != "buckets")
    assert states == pytest.approx(16 * setup.N / 64)
    ops = deepspeed.program(setup, 3)
    optimizer = next(index for index, op in enumerate(ops) if op.op == "optimizer")
    assert live_at(ops, optimizer).gathered == pytest.approx(2 * setup.N / 8)
    assert ops[-1].op == "optimizer"
    assert live_bytes(schedule(ops))[-1].gathered == 0.0


@pytest.mark.parametrize("size", [8, 64])
def test_hpz_over_all_ranks_still_costs_a_second_shard(size):
    """Source: utils/groups.py takes min(size, n) ranks, and stage3.py asks only whether the size is above 1."""
    setup = Setup(N=1e9, n=8, system="deepspeed", zero_hpz_partition_size=size, **ON_DEMAND)
    ops = deepspeed.program(setup, 3)
    optimizer = next(index for index, op in enumerate(ops) if op.op == "optimizer")
    assert live_at(ops, optimizer).gathered == pytest.approx(2 * setup.N / 8)


def test_gathers_among_neighbours_do_not_leave_the_node():
    setup = Setup(N=7.5e9, n=64, system="deepspeed", zero_hpz_partition_size=8, **ON_DEMAND)
    near = [op for op in deepspeed.program(setup, 3) if op.op == "all_gather" and op.phase == "backward"]
    assert {(op.ranks, op.leaves) for op in near} == {(8, False)}
    assert near[0].seconds == seconds("all_gather", near[0].nbytes, cluster_of(setup, 8))


def test_a_single_node_reduces_gradients_unquantized():
    """Source: stage3.py, ``__avg_scatter_grads`` takes the quantized path between nodes alone."""
    setup = Setup(N=1e9, n=8, system="deepspeed", zero_quantized_gradients=True)
    reduced = only(deepspeed.program(setup, 3), "reduce_scatter")
    assert {op.dtype for op in reduced} == {"bfloat16"}
