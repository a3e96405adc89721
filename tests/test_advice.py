"""Which stage to choose, by hand and by the paper's bold cells; the verdict's formula, read back."""

import json
import math
from pathlib import Path

import pytest

from zerowidget import Setup, advice, summary
from zerowidget.advice import explain
from zerowidget.rows import STAGES
from zerowidget.specs import RECIPES

TABLE_1 = json.loads(
    (Path(__file__).parent / "golden" / "papers" / "zero_table1.json").read_text(encoding="utf-8")
)
COLUMNS = {"P_os": 1, "P_os_g": 2, "P_os_g_p": 3}
MIB = 2**20


def bold(model, column):
    """The data-parallel degree that Table 1 prints bold: the smallest in the table that fits a 32 GB V100."""
    found = [row[0] for row in TABLE_1["rows"] if row[1] == model and column in row[-1]]
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize("model", ["7.5B", "128B", "1T"])
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("memory", ["32e9 bytes", "what the tool reports"])
def test_the_bold_cells_of_table_1_are_the_first_that_fit(model, column, memory):
    fitting = []
    for dp, name, psi, *_ in TABLE_1["rows"]:
        if name == model:
            row = summary(Setup(N=psi, n=dp, gpu="V100-32GB"))[COLUMNS[column]]
            if row["rest"] <= 32e9 if memory == "32e9 bytes" else row["fits"]:
                fitting.append(dp)
    assert min(fitting, default=None) == bold(model, column)


BOLD = [(row[2], row[0], COLUMNS[column]) for row in TABLE_1["rows"] for column in row[-1]]


def test_table_1_has_five_bold_cells():
    assert len(BOLD) == 5


@pytest.mark.parametrize(("N", "n", "stage"), BOLD)
def test_the_stage_advised_is_the_bold_one(N, n, stage):
    assert advice(Setup(N=N, n=n, gpu="V100-32GB"))["stage"] == stage


def test_stage_1_is_enough_for_the_article_s_model_on_an_h100():
    # 16N = 120e9 > 81089 MiB = 85.03e9 >= 4N + 12N/64 = 31.40625e9
    advised = advice(Setup(N=7.5e9, n=64, gpu="H100-80GB"))
    assert advised["stage"] == 1
    assert advised["capacity"] == 81089 * MIB
    assert advised["rest"] == advised["peak"] == 31.40625e9
    assert advised["fits_peak"] is True
    assert advised["relative"] == pytest.approx(1, rel=1e-12)
    assert advised["smallest_n"] is None
    assert advised["text"] == (
        "Every stage from 1 on fits the H100 80 GB (79.2 GiB). "
        "Stage 1 is enough: 29.2 GiB, at no extra communication. "
        "Model states only: activations come on top."
    )


def test_only_stage_3_fits_a_trillion_parameters_at_rest():
    # 16e12 / 1024 = 15.625e9 of 32510 MiB = 34.09e9. Two layers of 32 gathered, 2 bytes each: 125e9 more
    advised = advice(Setup(N=1e12, n=1024, gpu="V100-32GB", layers=32, prefetch=1))
    assert advised["stage"] == 3
    assert advised["rest"] == 15.625e9
    assert advised["peak"] >= 15.625e9 + 125e9
    assert advised["fits_peak"] is False
    assert advised["relative"] == pytest.approx(1.5, rel=1e-12)
    assert advised["text"].startswith(
        "Only stage 3 fits the V100 32 GB (31.7 GiB). Stage 3 is enough: 14.6 GiB, "
    )
    assert "at 1.5× the communication of plain data parallelism" in advised["text"]
    assert "At the peak of its step it needs " in advised["text"]


def test_every_stage_fits_a_small_model():
    advised = advice(Setup(N=1e9, n=8))
    assert advised["stage"] == 0
    assert advised["rest"] == 16e9
    assert advised["text"].startswith(
        "Every stage fits the H100 80 GB (79.2 GiB). Stage 0 is enough: 14.9 GiB, "
    )


# ceil(16N / capacity) GPUs hold 16N bytes in equal shards
@pytest.mark.parametrize(
    ("N", "n", "gpu", "recipe", "total", "capacity"),
    [
        (1e12, 8, "H100-80GB", "adam-mixed", 16e12, 81089 * MIB),
        (7.5e9, 1, "H100-80GB", "adam-mixed", 120e9, 81089 * MIB),
        (70e9, 8, "V100-32GB", "adam-main-grads", 20 * 70e9, 32510 * MIB),
        (671e9, 64, "T4", "adam-bf16", 8 * 671e9, 15360 * MIB),
        (15 * 2**29, 4, "T4", "adam-mixed", 8 * 15 * 2**30, 15 * 2**30),  # eight GPUs, full to the byte
    ],
)
def test_the_smallest_n_is_the_total_over_the_capacity(N, n, gpu, recipe, total, capacity):
    advised = advice(Setup(N=N, n=n, gpu=gpu, recipe=recipe))
    smallest = math.ceil(total / capacity)
    assert smallest > n
    assert advised["stage"] is None
    assert advised["smallest_n"] == smallest
    assert f"Stage 3 would fit from {smallest} GPUs on." in advised["text"]
    assert advice(Setup(N=N, n=smallest, gpu=gpu, recipe=recipe))["stage"] is not None
    assert advice(Setup(N=N, n=smallest - 1, gpu=gpu, recipe=recipe))["stage"] is None


def test_what_fills_a_gpu_to_the_byte_fits():
    # a T4 has 15 GiB; 16N are 15 GiB for N = 15 x 2^26
    assert advice(Setup(N=15 * 2**26, n=1, gpu="T4"))["stage"] == 0
    assert advice(Setup(N=15 * 2**26 + 1, n=1, gpu="T4"))["stage"] is None
    assert advice(Setup(N=15 * 2**26 + 1, n=1, gpu="T4"))["smallest_n"] == 2


def test_some_models_fit_no_number_of_gpus():
    # 20e16 bytes over 1e7 GPUs are 20e9 each, of 15 GiB = 16.1e9
    advised = advice(Setup(N=1e16, n=64, gpu="T4", recipe="adam-main-grads"))
    assert advised["stage"] is None
    assert advised["smallest_n"] is None
    assert "No number of GPUs up to 10000000 is enough." in advised["text"]


def test_when_nothing_fits_the_numbers_are_stage_3_s():
    advised = advice(Setup(N=1e12, n=8))
    assert advised["rest"] == 2e12
    assert advised["text"].startswith("No stage fits the H100 80 GB: stage 3 keeps 1863 GiB of 79.2 GiB. ")


def test_on_one_gpu_no_stage_is_better_than_none():
    advised = advice(Setup(N=1e9, n=1))
    assert advised["stage"] == 0
    assert advised["relative"] is None
    assert "with nothing to communicate" in advised["text"]
    assert advised["text"].endswith("One GPU has nothing to shard: all stages hold the same.")


def test_the_keys_of_advice():
    keys = ["stage", "capacity", "rest", "peak", "fits_peak", "relative", "smallest_n", "break_even", "text"]
    assert list(advice(Setup())) == keys


def test_the_break_even_network_is_three_quarters_of_flops_over_tokens():
    # 6N bytes of 16-bit parameters and gradients under 8NT FLOPs, one forward pass of them recomputed
    setup = Setup(N=1e12, n=1024, layers=8, recompute=True, seq_len=8192, utilization=0.5)
    flops = 989.4e12 * 0.5
    expected = 0.75 * flops / 8192
    assert advice(setup)["break_even"] == pytest.approx(expected, rel=5e-3)
    assert "Compute can hide it from 45.3 GB/s on; this ring carries 400 GB/s." in explain(setup)["moves"]


def test_there_is_no_break_even_network_without_messages_or_with_too_many():
    assert advice(Setup(n=1))["break_even"] is None
    assert advice(Setup(N=1e6, n=4096, seq_len=1))["break_even"] is None


def test_a_step_tells_its_messages_and_their_latency():
    # 3 collectives for each of 32 layers, a ring of 63 steps of 6 µs each
    text = explain(Setup(N=7.5e9, n=64))["moves"]
    assert "96 collectives, 3 per layer: their latency alone is 36.3 ms." in text
    row = summary(Setup(N=7.5e9, n=64))[3]
    assert (row["messages"], row["latency"]) == (96, pytest.approx(96 * 63 * 6e-6))


def test_advice_does_not_depend_on_the_stage_selected():
    assert len({advice(Setup(stage=stage))["text"] for stage in STAGES}) == 1


@pytest.mark.parametrize("language", ["en", "zh"])
def test_explain_has_its_keys_in_reading_order(language):
    assert list(explain(Setup(language=language))) == ["headline", "costs", "formula", "moves", "fits"]


def test_explain_speaks_the_setup_s_language():
    assert explain(Setup(n=64))["headline"] == "Stage 3 keeps 1.7 GiB on each GPU"
    chinese = explain(Setup(n=64, language="zh"))["headline"]
    assert chinese.startswith("阶段 3")
    assert chinese.endswith("1.7 GiB")
    english, chinese = explain(Setup()), explain(Setup(language="zh"))
    assert all(english[key] != chinese[key] for key in english)


@pytest.mark.parametrize("key", ["headline", "costs", "moves"])
def test_explain_follows_the_stage_selected(key):
    assert len({explain(Setup(stage=stage))[key] for stage in STAGES}) >= 3


def test_a_summary_handed_over_changes_nothing():
    setup = Setup(N=1e12, n=64, layers=5, stage=2)
    assert advice(setup, rows=summary(setup)) == advice(setup)
    assert explain(setup, rows=summary(setup)) == explain(setup)


# the formula


def evaluate(figures):
    """'4 × 7.5e9 + 12 × 7.5e9 / 64' -> what it comes to."""
    result = 0.0
    for term in figures.split(" + "):
        product, *over = term.split(" / ")
        bytes_each, N = (float(part) for part in product.split(" × "))
        result += bytes_each * N / (float(over[0]) if over else 1.0)
    return result


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(("N", "n"), [(7.5e9, 64), (1.234e12, 7), (3e8, 1)])
def test_the_formula_s_figures_come_to_what_rests(recipe, stage, language, N, n):
    setup = Setup(N=N, n=n, stage=stage, recipe=recipe, language=language)
    symbols, figures, nbytes, size = explain(setup)["formula"].split(" = ")
    rest = summary(setup)[stage]["rest"]
    assert evaluate(figures) == pytest.approx(rest, rel=1e-12)
    assert float(nbytes.split()[0]) == pytest.approx(rest, rel=5.1e-4)  # four figures are printed
    value, unit = size.split()
    assert unit == "GiB"
    assert float(value) == pytest.approx(rest / 2**30, rel=5e-3, abs=5.1e-3)
    # the symbols name the same bytes: every term is so many N, what is over n stands in one place
    plain = symbols.replace("N", f" * {N!r}").replace("n", str(n))
    assert eval(plain) == pytest.approx(rest, rel=1e-12)
    assert size.split()[0] != "0"


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        (0, "2N + 2N + 12N = 16 × 7.5e9 = 1.2e11 bytes = 111.76 GiB"),
        (1, "2N + 2N + 12N/n = 4 × 7.5e9 + 12 × 7.5e9 / 64 = 3.141e10 bytes = 29.25 GiB"),
        (2, "2N + (2N + 12N)/n = 2 × 7.5e9 + 14 × 7.5e9 / 64 = 1.664e10 bytes = 15.5 GiB"),
        (3, "(2N + 2N + 12N)/n = 16 × 7.5e9 / 64 = 1.875e9 bytes = 1.75 GiB"),
    ],
)
def test_the_formulas_of_the_article(stage, text):
    assert explain(Setup(N=7.5e9, n=64, stage=stage))["formula"] == text


@pytest.mark.parametrize(
    ("stage", "times", "what"),
    [
        (0, 2, "all-reduce of gradients"),
        (1, 2, "all-gather of parameters + reduce-scatter of gradients"),
        (2, 2, "all-gather of parameters + reduce-scatter of gradients"),
        (3, 3, "2 × all-gather of parameters + reduce-scatter of gradients"),
    ],
)
def test_what_each_stage_moves_is_told(stage, times, what):
    elements = {2: "15B", 3: "22.5B"}[times]
    said = explain(Setup(N=7.5e9, n=64, stage=stage))["moves"]
    assert said.startswith(f"{times}N = {elements} elements per step ({what}); ")
    assert f", {times / 2:g}× plain data parallelism. " in said


@pytest.mark.parametrize("N", [6260357566731.529, 1366.2776601683795, 8788144256749.553])
def test_3n_is_told_as_3n_for_every_n(N):
    # (N + N + N) / N is 2.9999999999999996 or 3.0000000000000004 in doubles for about one N in seven
    assert explain(Setup(N=N, n=2, stage=3))["moves"].startswith("3N = ")
