"""The paper's own numbers: ZeRO (arXiv:1910.02054), and the byte tables that other sources print."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from zerowidget import Setup, bytes_per_gpu, communication_rows, memory_rows, summary
from zerowidget.memory import at_rest, nbytes_of
from zerowidget.rows import STAGES
from zerowidget.specs import RECIPES, recipe_of

GOLDEN = Path(__file__).parent / "golden"
STAGE = {"baseline": 0, "P_os": 1, "P_os_g": 2, "P_os_g_p": 3}


def golden(name):
    """A golden file, its numbers as printed: Decimal('41.3') still knows its last digit."""
    text = (GOLDEN / name).read_text(encoding="utf-8")
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def unit_of(printed):
    """One unit of the last printed digit."""
    return Decimal(1).scaleb(printed.as_tuple().exponent)


def agrees(calculated, printed):
    """The papers round here and truncate there, so less than one unit of the last printed digit apart."""
    return abs(Decimal(calculated) - printed) < unit_of(printed)


def rows_of(name, *columns):
    """The rows of a golden table, only these columns."""
    table = golden(name)
    places = [table["columns"].index(column) for column in columns]
    return [tuple(row[place] for place in places) for row in table["rows"]]


# Table 1: bytes per GPU


TABLE_1 = [
    pytest.param(float(psi), int(dp), STAGE[strategy], printed, id=f"{model}-{dp}-{strategy}")
    for dp, model, psi, *cells in rows_of("papers/zero_table1.json", "dp", "model", "psi", *list(STAGE)[1:])
    for strategy, printed in zip(list(STAGE)[1:], cells, strict=True)
]


def test_table_1_is_there_whole():
    assert len(TABLE_1) == 54


@pytest.mark.parametrize(("psi", "dp", "stage", "printed"), TABLE_1)
def test_every_cell_of_table_1(psi, dp, stage, printed):
    assert agrees(bytes_per_gpu(psi, dp, stage) / 1e9, printed)


@pytest.mark.parametrize(
    ("strategy", "printed"), rows_of("papers/zero_figure1.json", "stage", "printed_GB"), ids=STAGE
)
def test_every_bar_of_figure_1(strategy, printed):
    assert agrees(bytes_per_gpu(7.5e9, 64, STAGE[strategy]) / 1e9, printed)


@pytest.mark.parametrize(("stage", "printed"), [(0, "111.8"), (1, "29.2"), (2, "15.5"), (3, "1.7")])
def test_the_article_s_four_numbers_in_gib(stage, printed):
    assert agrees(bytes_per_gpu(7.5e9, 64, stage) / 2**30, Decimal(printed))


# 16N, 4N + 12N/n, 2N + 14N/n, 16N/n: exact, as all quantities are whole
@pytest.mark.parametrize(("stage", "per_parameter"), [(0, 16), (1, 4 + 12 / 8), (2, 2 + 14 / 8), (3, 16 / 8)])
def test_the_four_formulas(stage, per_parameter):
    assert bytes_per_gpu(1e9, 8, stage) == per_parameter * 1e9


# Table 2: the largest model


def number(text):
    """'7.6B' -> the parameters it says and one unit of its last digit."""
    digits, scale = Decimal(text[:-1]), {"B": 10**9, "T": 10**12}[text[-1]]
    return digits * scale, unit_of(digits) * scale


def largest(stage, n, capacity):
    """The largest N whose model states fit, by bisection."""
    low, high = 1.0, 1e13
    while high - low > 1.0:
        middle = (low + high) / 2.0
        low, high = (middle, high) if bytes_per_gpu(middle, n, stage) <= capacity else (low, middle)
    return Decimal(low)


TABLE_2_COLUMNS = [f"theo_{strategy}" for strategy in STAGE]
TABLE_2 = [
    pytest.param(int(mp), stage, printed, id=f"mp{mp}-stage{stage}")
    for mp, *cells in rows_of("papers/zero_table2.json", "mp", *TABLE_2_COLUMNS)
    for stage, printed in enumerate(cells)
]
WITHOUT_MP = {case.values[1]: case.values[2] for case in TABLE_2 if case.values[0] == 1}


def test_table_2_is_there_whole():
    assert len(TABLE_2) == 20
    assert set(WITHOUT_MP) == set(STAGES)


@pytest.mark.parametrize(("mp", "stage", "printed"), TABLE_2)
def test_the_largest_models_of_table_2(mp, stage, printed):
    """32 GB is 32e9. Rows with model parallelism print the rounded first row times its degree."""
    fits = largest(stage, 64, 32e9)
    if mp > 1:
        fits = round(fits / number(WITHOUT_MP[stage])[1]) * number(WITHOUT_MP[stage])[1] * mp
    expected, unit = number(printed)
    assert abs(fits - expected) < unit


# Section 7: communication volume

VOLUME = golden("papers/zero_comm_volume.json")["rows"]


def moved(setup, stage, phase, op):
    """Elements of one kind of collective in a step."""
    found = [row["elements"] for row in communication_rows(setup) if row["stage"] == stage]
    kinds = [(row["phase"], row["op"]) for row in communication_rows(setup) if row["stage"] == stage]
    return dict(zip(kinds, found, strict=True)).get((phase, op), 0.0)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("N", [1.0, 7.5e9, 1e12])
def test_stages_move_2n_2n_2n_3n_elements(stage, N):
    total, relative = VOLUME[stage][5:]
    row = summary(Setup(N=N, n=64))[stage]
    assert row["volume"] == int(total) * N
    assert row["relative"] == pytest.approx(float(relative), rel=1e-12)


def test_stage_3_moves_half_again_as_much():
    rows = summary(Setup())
    assert rows[3]["wire_bytes"] == pytest.approx(1.5 * rows[0]["wire_bytes"], rel=1e-12)
    assert rows[1]["wire_bytes"] == rows[2]["wire_bytes"] == rows[0]["wire_bytes"]


@pytest.mark.parametrize("stage", STAGES)
def test_each_phase_moves_what_section_7_says(stage):
    reduced, after_step, in_forward, in_backward = VOLUME[stage][1:5]
    setup = Setup(N=1e9, n=8)
    # of an all-reduce, the one half is a reduce-scatter of gradients, the other an all-gather
    both_halves = moved(setup, stage, "backward", "all_reduce")
    assert moved(setup, stage, "backward", "reduce_scatter") + both_halves == int(reduced) * 1e9
    assert moved(setup, stage, "step", "all_gather") + both_halves == int(after_step) * 1e9
    assert moved(setup, stage, "forward", "all_gather") == int(in_forward) * 1e9
    assert moved(setup, stage, "backward", "all_gather") == int(in_backward) * 1e9
    assert len([row for row in communication_rows(setup) if row["stage"] == stage]) == (1, 2, 2, 3)[stage]


@pytest.mark.parametrize(("stage", "strategy"), [(0, "full replication"), (3, "full sharding")])
@pytest.mark.parametrize("W", [2, 8, 512])
def test_bytes_sent_are_those_of_the_fsdp_paper(stage, strategy, W):
    printed = dict(rows_of("papers/fsdp_cross_host_traffic.json", "strategy", "printed"))[strategy]
    expected = eval(printed, {"M": 2.0 * 7.5e9, "W": W})  # 2 bytes per element
    assert summary(Setup(N=7.5e9, n=W))[stage]["wire_bytes"] == pytest.approx(expected, rel=1e-12)


# Section 3.1: mixed-precision accounting

TENSORS = ("parameters", "gradients", "master", "momentum", "variance")


def test_mixed_precision_adam_is_2_2_4_4_4():
    table = rows_of("papers/zero_mixed_precision_adam.json", "bytes", "counts_in_K")
    states = recipe_of(Setup(recipe="adam-mixed")).states
    assert tuple(state for state, _, _ in states) == TENSORS
    assert [nbytes for _, _, nbytes in states] == [float(nbytes) for nbytes, _ in table]
    assert [kind == "optimizer" for _, kind, _ in states] == [in_k for _, in_k in table]


def test_gpt_2_needs_at_least_24_gb():
    example = golden("papers/zero_mixed_precision_adam.json")["example"]["GPT-2 1.5B"]
    held = at_rest(Setup(N=1.5e9, n=1), 0)
    assert held[0][:3] == ("parameters", "gpu", float(example["fp16 params GB"]) * 1e9)
    assert nbytes_of(held) == float(example["model states GB (at least)"]) * 1e9


def test_optimizer_states_are_three_quarters_of_adam():
    rows = [row for row in memory_rows(Setup(n=64)) if row["stage"] == 0 and row["when"] == "rest"]
    optimizer = sum(row["nbytes"] for row in rows if row["state"] in ("master", "momentum", "variance"))
    assert optimizer == 0.75 * sum(row["nbytes"] for row in rows)


def test_bars_draw_their_states_in_the_paper_s_order():
    for stage in STAGES:
        rows = memory_rows(Setup())
        held = [row["state"] for row in rows if row["stage"] == stage and row["when"] == "rest"]
        assert tuple(held) == TENSORS


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("state", TENSORS)
def test_a_state_is_whole_or_one_nth(stage, state):
    whole = dict(zip(TENSORS, (2e9, 2e9, 4e9, 4e9, 4e9), strict=True))[state]
    first = {"parameters": 3, "gradients": 2}.get(state, 1)
    held = {part.state: part.nbytes for part in at_rest(Setup(N=1e9, n=8), stage)}[state]
    assert held == (whole / 8 if stage >= first else whole)


# Other byte tables

MEGATRON = {
    ("float16", "float16"): "adam-main-grads",
    ("float16", "fp32"): "adam-fp32-grads",
    ("fp32", "fp32"): "adam-fp32",
}


@pytest.mark.parametrize(
    ("param_dtype", "grad_dtype", "whole", "distributed"),
    golden("estimators/megatron_distributed_optimizer_bytes.json")["rows"],
)
@pytest.mark.parametrize("d", [1, 2, 64, 1000])
def test_megatron_s_distributed_optimizer_is_stage_1(param_dtype, grad_dtype, whole, distributed, d):
    setup = Setup(N=1e9, n=d, recipe=MEGATRON[param_dtype, grad_dtype])
    kept, sharded = distributed.split("+")
    assert sharded.strip().endswith("/d")
    expected = float(kept) + float(sharded.replace("/d", "")) / d
    assert nbytes_of(at_rest(setup, 0)) == float(whole) * 1e9
    assert nbytes_of(at_rest(setup, 1)) == pytest.approx(expected * 1e9, rel=1e-12)


OURS = {
    "Adam fp16/bf16 mixed, ZeRO paper": "adam-mixed",
    "Adam bf16 + fp32 grad accumulation": "adam-fp32-grads",
    "Adam fp16 grads + fp32 main-grad copy": "adam-main-grads",
    "Adam pure fp32": "adam-fp32",
    "Adam pure bf16 (no master)": "adam-bf16",
    "SGD momentum fp32": "sgd-momentum-fp32",
    "SGD momentum mixed": "sgd-momentum",
    "SGD plain mixed": "sgd",
    "Lion mixed": "lion",
    "Muon mixed (2-D weights)": "muon",
    "8-bit Adam mixed, fp32 master": "adam-8bit",
    "8-bit Adam pure bf16": "adam-8bit-bf16",
    "Adafactor pure bf16, no beta1": "adafactor-bf16",
    "Adafactor mixed, no beta1": "adafactor",
}
# its source leaves the weight copy open (null), so no bar could be drawn
NOT_OFFERED = "FP8-LM (MS-AMP): fp8 grad, fp16 master, fp8 m, fp16 v"
COMPOSED = {row[0]: row[1:6] for row in golden("estimators/recipe_bytes_per_param.json")["rows"]}


def bytes_of(recipe, *states):
    """Bytes per parameter of these states."""
    return sum(nbytes for state, _, nbytes in RECIPES[recipe]["states"] if state in states)


def test_every_recipe_has_a_published_byte_count():
    assert sorted(OURS.values()) == sorted(RECIPES)
    assert set(COMPOSED) - set(OURS) == {NOT_OFFERED}
    assert COMPOSED[NOT_OFFERED][0] is None


@pytest.mark.parametrize("name", OURS)
def test_a_recipe_holds_its_published_bytes(name):
    weights, gradients, master, states, total = COMPOSED[name]
    recipe = OURS[name]
    all_gradients = sum(Decimal(part) for part in str(gradients).split("+"))
    assert bytes_of(recipe, "parameters") == weights
    assert bytes_of(recipe, "gradients", "main_gradients") == all_gradients
    assert bytes_of(recipe, "master") == master
    assert bytes_of(recipe, "momentum", "variance") == states
    assert nbytes_of(at_rest(Setup(N=1e9, n=1, recipe=recipe), 0)) == float(total) * 1e9


def test_hugging_face_s_anatomy_is_adam_with_fp32_gradients():
    printed = dict(rows_of("estimators/hf_training_anatomy_bytes.json", "item", "bytes"))
    recipe = "adam-fp32-grads"
    assert bytes_of(recipe, "parameters", "master") == printed["weights, mixed precision"]
    assert bytes_of(recipe, "momentum", "variance") == printed["AdamW states"]
    assert bytes_of(recipe, "gradients") == printed["gradients (fp32 or mixed)"]
    assert recipe_of(Setup(recipe=recipe)).bytes_of("optimizer") + 6.0 == printed["total mixed AdamW"]


# What optimizers were measured to keep. Mixed recipes keep their states beside an fp32 master, so the run
# with fp32 parameters speaks for them.
MEASURED = {
    "adam-mixed": [("Adam", "float32"), ("AdamW", "float32"), ("AdamW32bit (bitsandbytes)", "float32")],
    "adam-fp32-grads": [("AdamW", "float32")],
    "adam-main-grads": [("AdamW", "float32")],
    "adam-fp32": [("Adam", "float32"), ("AdamW", "float32")],
    "adam-bf16": [("Adam", "bfloat16"), ("AdamW", "bfloat16")],
    "sgd-momentum": [("SGD momentum=0.9", "float32")],
    "sgd-momentum-fp32": [("SGD momentum=0.9", "float32")],
    "sgd": [("SGD (no momentum)", "float32")],
    "lion": [("Lion (lion_pytorch)", "float32")],
    "muon": [("Muon (torch.optim)", "float32")],
    "adam-8bit": [("AdamW8bit (bitsandbytes)", "float32"), ("AdamW8bit (torchao)", "float32")],
    "adam-8bit-bf16": [("Adam8bit (bitsandbytes)", "bfloat16"), ("AdamW8bit (torchao)", "bfloat16")],
    "adafactor": [
        ("Adafactor (torch.optim)", "float32"),
        ("Adafactor (transformers, beta1=None)", "float32"),
    ],
    "adafactor-bf16": [
        ("Adafactor (torch.optim)", "bfloat16"),
        ("Adafactor (transformers, beta1=None)", "bfloat16"),
    ],
}
RUNS = {
    (optimizer, dtype): (int(count), int(nbytes), tensors)
    for optimizer, dtype, count, nbytes, tensors in rows_of(
        "estimators/optimizer_state_bytes_measured.json",
        "optimizer", "param_dtype", "n_params", "state_bytes", "by_tensor",
    )
}  # fmt: skip


def overhead(optimizer, tensors, matrices=2, height=256, width=1024):
    """Bytes that do not grow with the parameters: vanish beside real layers, so the recipe leaves them out.

    The run had two matrices of 256 x 1024.
    """
    nbytes = 0
    if "step" in tensors or "RMS" in tensors:
        nbytes += 4 * matrices  # one fp32 scalar per parameter tensor
    if "8bit" in optimizer:
        nbytes += 2 * 256 * 4 * matrices  # a table of 256 fp32 values per state and tensor
    factors = [share for tensor, share in tensors.items() if tensor.endswith(("row", "col", "_var"))]
    if factors:
        # a row and a column instead of a matrix; torch keeps them in the parameters' dtype
        width_of_one = 4 if max(factors) > Decimal("0.01") else 2
        nbytes += matrices * width_of_one * (height + width)
    return nbytes


@pytest.mark.parametrize(
    ("recipe", "optimizer", "dtype"), [(recipe, *run) for recipe, runs in MEASURED.items() for run in runs]
)
def test_optimizer_states_are_what_was_measured_to_the_byte(recipe, optimizer, dtype):
    count, nbytes, tensors = RUNS[optimizer, dtype]
    assert bytes_of(recipe, "momentum", "variance") * count + overhead(optimizer, tensors) == nbytes


def test_every_recipe_s_optimizer_was_measured():
    assert set(MEASURED) == set(RECIPES)


# Single GPUs, accumulation, errors


@pytest.mark.parametrize("recipe", RECIPES)
def test_on_one_gpu_all_stages_are_the_same_and_nothing_moves(recipe):
    setup = Setup(n=1, recipe=recipe, accumulation=3)
    assert communication_rows(setup) == []
    rows = summary(setup)
    for row in rows:
        assert row["rest"] == row["peak"] == rows[0]["rest"] > 0.0
        assert row["step"] == pytest.approx(rows[0]["step"], rel=1e-12)
        assert row["volume"] == row["wire_bytes"] == row["communication"] == row["exposed"] == 0.0
        assert row["relative"] is None


# times that N elements move in a step of 5 micro-steps: whole gradients (stages 0, 1) can wait for the last
# micro-step; shards of gradients and of parameters cannot; updated parameters are gathered once a step
ACCUMULATED = [
    (0, "backward", "all_reduce", 1),
    (1, "backward", "reduce_scatter", 1),
    (1, "step", "all_gather", 1),
    (2, "backward", "reduce_scatter", 5),
    (2, "step", "all_gather", 1),
    (3, "forward", "all_gather", 5),
    (3, "backward", "all_gather", 5),
    (3, "backward", "reduce_scatter", 5),
]


@pytest.mark.parametrize(("stage", "phase", "op", "times"), ACCUMULATED)
def test_accumulation_repeats_what_is_sharded(stage, phase, op, times):
    setup = Setup(N=1e9, n=8, layers=4, accumulation=5)
    (row,) = [
        row
        for row in communication_rows(setup)
        if (row["stage"], row["phase"], row["op"]) == (stage, phase, op)
    ]
    assert row["elements"] == times * 1e9
    assert row["count"] == times * 4


def test_accumulation_adds_no_other_collective():
    rows = communication_rows(Setup(n=8, accumulation=5))
    assert [(row["stage"], row["phase"], row["op"]) for row in rows] == [case[:3] for case in ACCUMULATED]


@pytest.mark.parametrize("name", OURS)
def test_what_travels_is_the_working_copy_in_its_dtype(name):
    weights, gradients = COMPOSED[name][:2]
    width = {"float16": 2, "bfloat16": 2, "float32": 4}
    rows = communication_rows(Setup(N=1e9, n=8, recipe=OURS[name]))
    assert len(rows) == 8
    for row in rows:
        # "2+4": the fp32 main gradients are made after the reduction and stay where they are
        per_element = weights if row["op"] == "all_gather" else int(str(gradients).partition("+")[0])
        assert row["nbytes"] == float(per_element) * row["elements"]
        assert width[row["dtype"]] == per_element


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 64, 3), "N must be at least 1, got 0"),
        (("7.5B", 64, 3), "N must be a finite number, got '7.5B'"),
        ((7.5e9, 0, 3), "n must be at least 1, got 0"),
        ((7.5e9, 2.5, 3), "n must be a whole number, got 2.5"),
        ((7.5e9, 64, 4), "stage must be 0, 1, 2 or 3, got 4"),
        ((7.5e9, 64, None), "stage must be 0, 1, 2 or 3, got None"),
    ],
)
def test_bytes_per_gpu_says_what_is_wrong(arguments, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 the whole text is compared
        bytes_per_gpu(*arguments)
    assert str(caught.value) == message
