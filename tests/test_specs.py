"""What a user may say, and what is answered to what cannot be: argument, rule, value."""

import dataclasses
import re
from fractions import Fraction

import pytest

from zerowidget import Setup
from zerowidget.data import load
from zerowidget.specs import (
    FIELDS,
    GPUS,
    LINKS,
    RECIPES,
    cluster_of,
    options,
    parse_count,
    shown,
    transformer_of,
)
from zerowidget.words import field_name

WORDS = load("words")
NAN, INF = float("nan"), float("inf")

NUMBER, WHOLE, SWITCH = "a finite number", "a whole number", "True or False"
STAGES, UNITS, LANGUAGES = "0, 1, 2 or 3", "GiB or GB", "en or zh"

DTYPES = "float32, bfloat16 or float16"
RESHARD = "True, False or a whole number of ranks"
BAD = [
    ("N", 0, "at least 1", "0"),
    ("N", -1, "at least 1", "-1"),
    ("N", 0.5, "at least 1", "0.5"),
    ("N", 1e17, "at most 10000000000000000", "100000000000000000"),
    ("N", NAN, NUMBER, "nan"),
    ("N", INF, NUMBER, "inf"),
    ("N", -INF, NUMBER, "-inf"),
    ("N", "7", NUMBER, "'7'"),
    ("N", "7.5B", NUMBER, "'7.5B'"),
    ("N", True, NUMBER, "True"),
    ("N", None, NUMBER, "None"),
    ("N", [7.5e9], NUMBER, "[7500000000.0]"),
    ("N", 1j, NUMBER, "1j"),
    ("n", 0, "at least 1", "0"),
    ("n", 2.5, WHOLE, "2.5"),
    ("n", -3, "at least 1", "-3"),
    ("n", "4", WHOLE, "'4'"),
    ("n", True, WHOLE, "True"),
    ("n", None, WHOLE, "None"),
    ("n", NAN, WHOLE, "nan"),
    ("n", INF, WHOLE, "inf"),
    ("n", 1e9, "at most 10000000", "1000000000"),
    ("stage", 4, STAGES, "4"),
    ("stage", -1, STAGES, "-1"),
    ("stage", "3", STAGES, "'3'"),
    ("stage", 1.5, STAGES, "1.5"),
    ("stage", True, STAGES, "True"),
    ("stage", False, STAGES, "False"),
    ("stage", None, STAGES, "None"),
    ("stage", NAN, STAGES, "nan"),
    ("stage", [3], STAGES, "[3]"),
    ("system", "megatron", "paper, deepspeed or fsdp2", "'megatron'"),
    ("system", None, "paper, deepspeed or fsdp2", "None"),
    ("layers", 0, "at least 1", "0"),
    ("layers", 1025, "at most 1024", "1025"),
    ("layers", 1.5, WHOLE, "1.5"),
    ("hidden", 0, "at least 1", "0"),
    ("hidden", "4096", WHOLE, "'4096'"),
    ("hidden", False, WHOLE, "False"),
    ("seq_len", 0, "at least 1", "0"),
    ("micro_batch", 0, "at least 1", "0"),
    ("accumulation", 0, "at least 1", "0"),
    ("accumulation", 257, "at most 256", "257"),
    ("recompute", "yes", SWITCH, "'yes'"),
    ("recompute", 1, SWITCH, "1"),
    ("recompute", 0, SWITCH, "0"),
    ("recompute", None, SWITCH, "None"),
    ("gpus_per_node", 0, "at least 1", "0"),
    ("utilization", 0, "at least 0.01", "0"),
    ("utilization", 1.5, "at most 1", "1.5"),
    ("utilization", "0.4", NUMBER, "'0.4'"),
    ("prefetch", -1, "at least 0", "-1"),
    ("prefetch", 0.5, WHOLE, "0.5"),
    ("compare", "megatron", "paper, deepspeed or fsdp2", "'megatron'"),
    ("param_dtype", "bf16", DTYPES, "'bf16'"),
    ("param_dtype", None, DTYPES, "None"),
    ("reduce_dtype", "fp32", DTYPES, "'fp32'"),
    ("grad_accum_dtype", 32, DTYPES, "32"),
    ("reshard_after_forward", 0, RESHARD, "0"),
    ("reshard_after_forward", 2.5, RESHARD, "2.5"),
    ("reshard_after_forward", "True", RESHARD, "'True'"),
    ("reshard_after_forward", NAN, RESHARD, "nan"),
    ("shard_size", 0, "at least 1", "0"),
    ("sync_every_micro_batch", 1, SWITCH, "1"),
    ("sync_every_micro_batch", None, SWITCH, "None"),
    ("stage3_prefetch_bucket_size", "auto", WHOLE, "'auto'"),
    ("stage3_max_live_parameters", -1, "at least 0", "-1"),
    ("stage3_max_reuse_distance", 0.5, WHOLE, "0.5"),
    ("stage3_param_persistence_threshold", -1, "at least 0", "-1"),
    ("reduce_bucket_size", 0, "at least 1", "0"),
    ("allgather_bucket_size", 0, "at least 1", "0"),
    ("overlap_comm", 1, SWITCH, "1"),
    ("contiguous_gradients", None, SWITCH, "None"),
    ("use_multi_rank_bucket_allreduce", "no", SWITCH, "'no'"),
    ("zero_hpz_partition_size", 0, "at least 1", "0"),
    ("zero_quantized_weights", 1, SWITCH, "1"),
    ("zero_quantized_gradients", 1, SWITCH, "1"),
    ("offload", "nvme", "none or cpu", "'nvme'"),
    ("unit", "MB", UNITS, "'MB'"),
    ("unit", "gib", UNITS, "'gib'"),
    ("unit", None, UNITS, "None"),
    ("language", "fr", LANGUAGES, "'fr'"),
    ("language", 0, LANGUAGES, "0"),
]


@pytest.mark.parametrize(("name", "value", "rule", "got"), BAD)
def test_a_bad_value_is_refused_by_argument_rule_and_value(name, value, rule, got):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 the whole text is compared
        Setup(**{name: value})
    assert str(caught.value) == f"{name} must be {rule}, got {got}"


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("gpu", "H1000", list(GPUS)),
        ("gpu", None, list(GPUS)),
        ("recipe", "adam", list(RECIPES)),
        ("recipe", 3, list(RECIPES)),
        ("link", "NVLink-4", [link for link in LINKS if LINKS[link]["scope"] == "between"]),
    ],
)
def test_a_bad_choice_is_told_what_there_is(name, value, allowed):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 the whole text is compared
        Setup(**{name: value})
    assert str(caught.value) == f"{name} must be {', '.join(allowed[:-1])} or {allowed[-1]}, got {value!r}"


def test_every_field_has_a_value_that_it_refuses():
    assert {case[0] for case in BAD} | {"gpu", "recipe", "link", "shapes"} == set(FIELDS)


@pytest.mark.parametrize("name", ["N", "n", "layers"])
@pytest.mark.parametrize("value", [10**400, -(10**400), Fraction(10**400)])
def test_a_number_beyond_floats_is_refused_like_any_other(name, value):
    with pytest.raises(ValueError, match=rf"^{name} must be at (most|least) \d+, got .{{1,60}}$"):
        Setup(**{name: value})


@pytest.mark.parametrize(
    "value",
    [10**21, 10**400, 10**5000, -(10**5000), Fraction(10**5000)],
    ids=["10^21", "10^400", "10^5000", "-10^5000", "10^5000/1"],
)
@pytest.mark.parametrize(("name", "rule"), [("N", None), ("n", None), ("stage", STAGES), ("unit", UNITS)])
def test_a_whole_number_too_long_to_print_is_told_in_words(name, rule, value):
    # Python itself refuses to print more than 4300 digits
    limits = "at least 1" if value < 0 else f"at most {FIELDS[name].get('max', 0):.0f}"
    with pytest.raises(ValueError) as caught:  # noqa: PT011 the whole text is compared
        Setup(**{name: value})
    assert str(caught.value) == f"{name} must be {rule or limits}, got a number past all bounds"


class Quarters(Fraction):
    """A real number of a library of its own, with a repr of its own."""

    def __repr__(self):
        return f"Quarters({float(self) * 4})"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (2.5, "2.5"),
        (1e17, "100000000000000000"),
        (Fraction(5, 2), "2.5"),
        (Fraction(-3), "-3"),
        (Quarters(1, 4), "0.25"),
        (Quarters(7), "7"),
        (10**20, "100000000000000000000"),
        (10**21, "a number past all bounds"),
        (-(10**21), "a number past all bounds"),
        (1e22, "1e+22"),
        (NAN, "nan"),
        (-INF, "-inf"),
        (True, "True"),
        ("7", "'7'"),
        (None, "None"),
    ],
)
def test_a_real_number_of_any_type_is_shown_plainly(value, text):
    assert shown(value) == text


def test_numpy_s_numbers_are_shown_plainly():
    numpy = pytest.importorskip("numpy")
    assert shown(numpy.float64(2.5)) == "2.5"
    assert shown(numpy.float32(0.5)) == "0.5"
    assert shown(numpy.int64(-3)) == "-3"
    assert [shown(numpy.float64(value)) for value in (NAN, -INF, 1e22)] == ["nan", "-inf", "1e+22"]
    with pytest.raises(ValueError, match=r"^n must be at least 1, got 0$"):
        Setup(n=numpy.int64(0))
    with pytest.raises(ValueError, match=r"^utilization must be at most 1, got 1\.5$"):
        Setup(utilization=numpy.float64(1.5))


@pytest.mark.parametrize("value", [Fraction(1, 2), Quarters(1, 2)])
def test_a_fraction_is_refused_as_any_number_is(value):
    with pytest.raises(ValueError, match=r"^n must be a whole number, got 0\.5$"):
        Setup(n=value)


def test_a_long_value_is_cut_short():
    with pytest.raises(ValueError, match=r"^gpu must be .* got 'x{56}\.\.\.$"):
        Setup(gpu="x" * 1000)


@pytest.mark.parametrize(("layers", "accumulation"), [(1024, 17), (65, 256)])
def test_a_step_too_long_to_read_is_refused(layers, accumulation):
    message = f"^layers x accumulation must be at most 16384, got {layers} x {accumulation}$"
    with pytest.raises(ValueError, match=message):
        Setup(layers=layers, accumulation=accumulation)


def test_the_longest_step_is_accepted():
    assert Setup(layers=1024, accumulation=16).layers == 1024
    assert Setup(layers=64, accumulation=256).accumulation == 256


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("stag", "stage"),
        ("hiden", "hidden"),
        ("layer", "layers"),
        ("seqlen", "seq_len"),
        ("microbatch", "micro_batch"),
        ("gpu_per_node", "gpus_per_node"),
    ],
)
def test_an_unknown_field_suggests_the_nearest(name, near):
    with pytest.raises(TypeError, match=rf"^unknown field {name}, did you mean {near}\?$"):
        Setup(**{name: 1})


def test_a_field_like_none_of_them_suggests_nothing():
    with pytest.raises(TypeError, match=r"^unknown field zzz$"):
        Setup(zzz=1)


@pytest.mark.parametrize("value", [64.0, Fraction(64), 64])
def test_whole_numbers_of_any_kind_are_counts(value):
    setup = Setup(n=value)
    assert setup.n == 64
    assert type(setup.n) is int


@pytest.mark.parametrize("value", [7, Fraction(7), 7.0])
def test_quantities_are_floats_from_the_door(value):
    assert type(Setup(N=value).N) is float
    assert Setup(N=value) == Setup(N=7.0)


@pytest.mark.parametrize("value", [2, 2.0, Fraction(2)])
def test_a_stage_is_an_int(value):
    assert Setup(stage=value).stage == 2
    assert type(Setup(stage=value).stage) is int


def test_numpy_s_numbers_are_numbers():
    numpy = pytest.importorskip("numpy")
    setup = Setup(N=numpy.float32(8), n=numpy.int64(64), stage=numpy.int8(2), utilization=numpy.float64(0.5))
    assert setup == Setup(N=8, n=64, stage=2, utilization=0.5)
    assert {type(value) for value in (setup.N, setup.n, setup.stage, setup.utilization)} == {int, float}


def test_hidden_may_be_left_open():
    assert Setup(hidden=None).hidden is None
    assert Setup(hidden=4096).hidden == 4096


@pytest.mark.parametrize("name", [name for name, rule in FIELDS.items() if "min" in rule])
def test_limits_themselves_are_allowed(name):
    for limit in (FIELDS[name]["min"], FIELDS[name]["max"]):
        values = {"layers": 1} if name == "accumulation" else {}
        assert getattr(Setup(**values, **{name: limit}), name) == limit


@pytest.mark.parametrize("name", [name for name, rule in FIELDS.items() if rule["type"] == "choice"])
def test_every_choice_is_accepted(name):
    for choice in options(name):
        assert getattr(Setup(**{name: choice}), name) == choice


# the record itself


def test_a_setup_cannot_be_changed():
    setup = Setup()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setup.n = 8
    with pytest.raises(dataclasses.FrozenInstanceError):
        del setup.n


def test_equal_setups_are_one_key():
    assert len({Setup(n=8), Setup(n=8.0), Setup(n=16)}) == 2


def test_fields_are_keywords_only():
    with pytest.raises(TypeError):
        Setup(7.5e9)


def test_but_changes_a_copy():
    setup = Setup(N=1e9, n=8)
    assert setup.but(n=16) == Setup(N=1e9, n=16)
    assert setup.n == 8


def test_but_checks_again():
    with pytest.raises(ValueError, match=r"^n must be at least 1, got 0$"):
        Setup().but(n=0)
    with pytest.raises(TypeError, match=r"^unknown field stag, did you mean stage\?$"):
        Setup().but(stag=1)


def test_changed_names_what_was_chosen():
    assert Setup().changed() == {}
    assert Setup(n=64, stage=1, hidden=4096).changed() == {"stage": 1, "hidden": 4096}
    assert Setup(**Setup(stage=1, unit="GB").changed()) == Setup(stage=1, unit="GB")


def test_the_fields_are_those_of_the_shared_file_in_its_order():
    assert [field.name for field in dataclasses.fields(Setup)] == list(FIELDS)


@pytest.mark.parametrize("name", FIELDS)
def test_a_default_is_the_shared_file_s_and_of_the_annotated_type(name):
    value = getattr(Setup(), name)
    assert value == FIELDS[name]["default"]
    annotation = {field.name: field.type for field in dataclasses.fields(Setup)}[name]
    kinds = {"NoneType" if value is None else type(value).__name__}
    assert kinds <= {{"None": "NoneType"}.get(kind, kind) for kind in annotation.split(" | ")}
    assert ("None" in annotation) == FIELDS[name].get("optional", False)


def test_the_article_s_example_is_the_default():
    assert (Setup().N, Setup().n) == (7.5e9, 64)
    assert Setup().recipe == "adam-mixed"


# parts that follow


def test_layers_share_the_parameters_evenly():
    transformer = transformer_of(Setup(N=1e9, layers=10, seq_len=2048, micro_batch=3))
    assert (transformer.layers, transformer.elements, transformer.tokens) == (10, 1e8, 6144.0)


def test_capacity_is_in_mebibytes():
    assert cluster_of(Setup(gpu="T4")).capacity == 15360 * 2**20 == 15 * 2**30


# counts as people write them


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7.5e9", 7.5e9),
        ("7.5E9", 7.5e9),
        ("7.5B", 7.5e9),
        ("7.5b", 7.5e9),
        ("70b", 70e9),
        ("350M", 350e6),
        ("350 M", 350e6),
        (" 1T ", 1e12),
        ("1.5G", 1.5e9),
        ("2k", 2000.0),
        ("1,000", 1000.0),
        ("12,345,678.5", 12345678.5),
        ("1,000K", 1e6),
        ("7,500 M", 7.5e9),
        ("1_000_000", 1e6),
        ("64", 64.0),
        (".5M", 5e5),
        ("1e3K", 1e6),
        ("-3", -3.0),
    ],
)
def test_counts_are_read_as_people_write_them(text, value):
    assert parse_count(text) == value


# "7,5" is seven and a half to half the world: to read 75 would be wrong for everyone
@pytest.mark.parametrize(
    "comma",
    [
        "7,5",
        "7,5B",
        "1,00",
        ",100",
        "1,0000",
        "1000,000",
        "1,,000",
        "1,000,",
        "1,2e3",
        "1,e+5",
        "1e5,000",
        "1,000.5,000",
    ],
)
def test_a_comma_that_parts_no_thousands_is_refused(comma):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 the whole text is compared
        parse_count(comma)
    assert str(caught.value) == f"not a number: {comma!r}; write 7.5e9, 7.5B or 350M"


@pytest.mark.parametrize(
    "text",
    ["", " ", "B", "seven", "7.5X", "7x5", "1.2.3", "--5", "5e", "nan", "inf", "1e", "0x10", "7BB", "7 B x"],
)
def test_what_is_no_count_is_refused_with_an_example(text):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 the whole text is compared
        parse_count(text)
    assert str(caught.value) == f"not a number: {text!r}; write 7.5e9, 7.5B or 350M"


# words.json


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_has_a_label_in_both_languages(name):
    # "recompute" alone is what the timeline calls the op
    key = "recompute_field" if name == "recompute" else name
    if key not in WORDS:  # a knob that both languages call as its system does
        assert FIELDS[name].get("systems")
        assert field_name(name, "zh") == field_name(name, "en") == name
        return
    label = WORDS[key]
    assert label["en"]
    assert label["zh"]


@pytest.mark.parametrize("key", WORDS)
def test_every_sentence_says_the_same_in_both_languages(key):
    entry = WORDS[key]
    assert list(entry) == ["en", "zh"]
    assert all(text.strip() for text in entry.values())
    places = {language: sorted(re.findall(r"\{(\w+)\}", text)) for language, text in entry.items()}
    assert places["en"] == places["zh"]
    assert all(text.count("{") == text.count("}") == len(places["en"]) for text in entry.values())


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_state_of_a_recipe_has_a_name_and_a_colour(recipe):
    colours = load("encoding")["states"]
    for state, kind, nbytes in RECIPES[recipe]["states"]:
        assert state in WORDS
        assert set(colours[state]) == {"light", "dark"}
        assert kind in ("parameters", "gradients", "optimizer")
        assert nbytes > 0
    assert set(RECIPES[recipe]["label"]) == {"en", "zh"}


@pytest.mark.parametrize("name", [name for name, rule in FIELDS.items() if rule["type"] == "whole"])
def test_every_count_is_exact_in_javascript(name):
    assert FIELDS[name]["max"] < 2**53
