"""The shapes of a model: what is taken, what follows from them, and how they are grouped."""

import pytest
from tinygpt import blocks_only_shapes, tinygpt_shapes

from zerowidget import Setup
from zerowidget.layout import layout_of
from zerowidget.specs import MAX_SHAPES

TINY = tinygpt_shapes()


def test_the_tiny_gpt_has_the_recorded_parameters():
    setup = Setup.from_shapes(TINY)
    assert (setup.N, setup.layers) == (3_692_032, 4)
    assert Setup.from_shapes(tinygpt_shapes(tied=True)).N == 3_429_888
    assert Setup.from_shapes(blocks_only_shapes()).N == 3 * 49_984
    layout = layout_of(setup)
    assert len(layout.parameters) == 53
    sizes = {}
    for module in layout.modules:
        for index in module.parameters:
            sizes[module.group] = sizes.get(module.group, 0) + layout.parameters[index].elements
    assert sizes == {"root": 532_992} | {f"layer {i}": 789_760 for i in range(4)}


def test_modules_run_in_the_order_of_the_model_and_own_their_parameters():
    modules = layout_of(Setup.from_shapes(TINY)).modules
    block = ["ln1", "qkv", "proj", "ln2", "up", "down"]
    blocks = [f"blocks.{i}.{name}" for i in range(4) for name in block]
    assert [module.name for module in modules] == ["tok", "pos", *blocks, "norm", "head"]
    assert all(len(module.parameters) == 2 for module in modules if module.name in blocks)


def test_a_shared_parameter_is_one_parameter_in_two_modules():
    layout = layout_of(Setup.from_shapes(tinygpt_shapes(tied=True)))
    assert layout.modules[0].parameters == layout.modules[-1].parameters == (0,)
    assert len(layout.parameters) == 52


def test_embeddings_take_no_flops_and_the_head_takes_two_per_parameter_and_token():
    setup = Setup.from_shapes(TINY, seq_len=32, micro_batch=2)
    flops = {module.name: module.forward_flops for module in layout_of(setup).modules}
    assert flops["tok"] == flops["pos"] == 0.0
    assert flops["head"] == 2 * 1024 * 256 * 64
    assert flops["blocks.3.up"] == 2 * (1024 * 256 + 1024) * 64


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("model.layers.7.mlp.experts.3.w1.weight", "model.layers.7"),
        ("transformer.h.0.attn.c_attn.weight", "transformer.h.0"),
        ("0.weight", "0"),
        ("lm_head.weight", ""),
        ("weight", ""),
        ("decoder.block.0.layer.1.weight", "decoder.block.0"),
        ("h.\u0663.weight", ""),
    ],
)
def test_a_layer_is_what_stands_in_the_outermost_list(name, layer):
    from zerowidget.specs import layer_name

    assert layer_name(name) == layer


def test_layers_of_two_lists_are_counted_together():
    shapes = {f"{part}.block.{i}.weight": (8, 8) for part in ("encoder", "decoder") for i in range(3)}
    assert Setup.from_shapes(shapes).layers == 6


def test_without_shapes_a_layer_is_four_matrices():
    layout = layout_of(Setup(N=48e6, layers=2))
    assert [parameter.elements for parameter in layout.parameters] == [6e6, 2e6, 8e6, 8e6] * 2
    assert [module.group for module in layout.modules] == ["layer 0"] * 4 + ["layer 1"] * 4


@pytest.mark.parametrize(
    ("shapes", "got"),
    [
        ({}, "{}"),
        (5, "5"),
        ("blocks", "'blocks'"),
        ({"a": 5}, "'a: 5'"),
        ({"a": (0,)}, "'a: [0]'"),
        ({"a": (1.5,)}, "'a: [1.5]'"),
        ({"a": (True,)}, "'a: [True]'"),
        ({"a": (2,) * 9}, "'a: (2, 2, 2, 2, 2, 2, 2, 2, 2)'"),
        ({"a": "b"}, "'a: b'"),
        ({"a": (1,), "b": "a", "c": "b"}, "'c: b'"),
        ({"": (1,)}, "''"),
        ({3: (1,)}, "3"),
        ([("a", (1,)), ("a", (1,))], "'a'"),
        ([("a", (1,), 2)], "('a', (1,), 2)"),
        (["ab"], "'ab'"),
        ({"a": b"ab"}, "\"a: b'ab'\""),
        ({"a": {2, 3}}, "'a: {2, 3}'"),
        ({("a", (1,))}, "{('a', (1,))}"),
        ({"\ud800": (1,)}, "'\\ud800'"),
        ({"a\nb": (1,)}, "'a\\nb'"),
        ({"a": (10**9, 10**9)}, "'1000000000000000000 elements'"),
    ],
)
def test_bad_shapes_are_refused_by_their_entry(shapes, got):
    with pytest.raises(
        ValueError, match=r"^shapes must be 1 to 4096 different names of at most 200 letters"
    ) as caught:
        Setup(shapes=shapes)
    assert str(caught.value).endswith(f", got {got}")


def test_too_many_shapes_are_refused():
    with pytest.raises(ValueError, match="shapes must be 1 to 4096"):
        Setup(shapes={f"a{i}": (1,) for i in range(MAX_SHAPES + 1)})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"N": 7e9}, "N must be what the shapes hold, 3692032, got 7000000000"),
        ({"layers": 5}, "layers must be what the shapes hold, 4, got 5"),
        ({"accumulation": 256, "shapes": tinygpt_shapes(L=8)}, "shapes x accumulation must be at most 16384"),
    ],
)
def test_what_the_shapes_decide_cannot_be_something_else(values, message):
    with pytest.raises(ValueError, match=message):
        Setup(**{"shapes": TINY, **values})
    assert Setup(shapes=TINY, N=3_692_032, layers=4) == Setup(shapes=TINY)


def test_a_setup_with_shapes_is_hashable_and_copies_with_them():
    setup = Setup.from_shapes(TINY, n=8)
    assert hash(setup) == hash(setup.but(n=8))
    assert setup.but(n=4).shapes == setup.shapes


def test_pairs_may_come_one_by_one_and_other_shapes_bring_their_own_counts():
    setup = Setup.from_shapes((name, shape) for name, shape in TINY.items())
    assert setup == Setup.from_shapes(TINY)
    assert setup.but(shapes=blocks_only_shapes()).N == 3 * 49_984
    assert Setup(N=7e9, layers=80).but(shapes=TINY).layers == 4
    assert setup.but(shapes=None).N == setup.N


def test_the_rules_of_a_compared_system_hold_too():
    with pytest.raises(ValueError, match="shard_size must be a divisor of 64, got 3"):
        Setup(n=64, shard_size=3, compare="fsdp2")
    assert Setup(n=64, shard_size=3).shard_size == 3
