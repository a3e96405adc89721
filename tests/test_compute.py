"""Seconds of compute: FLOPs against Korthikanti et al. (arXiv:2205.05198), the optimizer step by hand."""

import json
from pathlib import Path

import pytest

from zerowidget import Setup
from zerowidget.compute import backward_seconds, forward_seconds, optimizer_seconds
from zerowidget.specs import cluster_of, recipe_of, transformer_of

GOLDEN = Path(__file__).parent / "golden" / "papers"


def rows_of(name):
    """The rows of a paper's table by model."""
    table = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    return {row[0]: dict(zip(table["columns"], row, strict=True)) for row in table["rows"]}


MODELS = rows_of("korthikanti_table3_configs")
SEQUENCE, VOCABULARY = 2048, 51200


def layers_of(model, **values):
    """A published model without its embeddings: 12 h^2 parameters a layer."""
    h, layers = MODELS[model]["hidden"], MODELS[model]["layers"]
    choices = {"gpu": "A100-80GB", "utilization": 1, "seq_len": SEQUENCE, "micro_batch": 1, "n": 1} | values
    return Setup(N=12.0 * layers * h * h, layers=layers, hidden=h, **choices)


@pytest.mark.parametrize("model", MODELS)
def test_a_layer_takes_the_flops_of_the_appendix(model):
    # 24 b s h^2 (1 + s / 6h)
    h = MODELS[model]["hidden"]
    printed = 24 * 3 * SEQUENCE * h**2 * (1 + SEQUENCE / (6 * h))
    assert transformer_of(layers_of(model, micro_batch=3)).forward_flops == pytest.approx(printed, rel=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_a_step_takes_the_measured_time_at_the_printed_utilization(model):
    """Table 5: iteration time x MFU x GPUs x 312 TFLOP/s is the model's FLOPs, the logits' 6Bshv aside."""
    config, run = MODELS[model], rows_of("korthikanti_table5_iteration")[model]
    batch, h = config["global_batch"], config["hidden"]
    setup = layers_of(model, micro_batch=batch)
    transformer, cluster = transformer_of(setup), cluster_of(setup)
    layer = forward_seconds(transformer, cluster) + backward_seconds(transformer, cluster)
    logits = 6 * batch * SEQUENCE * h * VOCABULARY / 312e12
    expected = (setup.layers * layer + logits) / config["gpus"] / (run["mfu_pct"] / 100)
    assert expected == pytest.approx(run["present_work_s"], rel=0.01)


def test_two_flops_per_parameter_and_token():
    setup = Setup(N=1e9, layers=10, seq_len=1000, micro_batch=3, hidden=None)
    assert transformer_of(setup).forward_flops == 2 * 1e8 * 3000


def test_the_backward_pass_takes_twice_the_forward_pass():
    transformer, cluster = transformer_of(Setup()), cluster_of(Setup())
    assert backward_seconds(transformer, cluster) == 2 * forward_seconds(transformer, cluster)


def test_utilization_is_a_share_of_the_gpu_s_peak():
    setup = Setup(N=1e9, layers=1, seq_len=1000, micro_batch=1, gpu="H100-80GB", utilization=0.25)
    assert forward_seconds(transformer_of(setup), cluster_of(setup)) == 2e12 / (0.25 * 989e12)


@pytest.mark.parametrize(
    ("recipe", "touched"),
    # read and write of the optimizer states, gradients read, parameters written
    [
        ("adam-mixed", 2 * 12 + 2 + 2),
        ("adam-fp32", 2 * 8 + 4 + 4),
        ("sgd", 2 * 4 + 2 + 2),
        ("adafactor-bf16", 4),
    ],
)
def test_the_optimizer_step_touches_every_state_once(recipe, touched):
    setup = Setup(recipe=recipe, gpu="H100-80GB")
    took = optimizer_seconds(1e9, recipe_of(setup), cluster_of(setup))
    assert took == pytest.approx(touched * 1e9 / 3350e9, rel=1e-12)
