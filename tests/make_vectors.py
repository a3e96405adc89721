"""Write tests/vectors/: what Python computes, which JavaScript must equal to the last bit.

    python tests/make_vectors.py

Numbers are drawn with ``Random.random`` alone, the one method that Python promises to keep.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import asdict
from math import inf, nan
from pathlib import Path
from random import Random
from typing import Any

from tinygpt import blocks_only_shapes, tinygpt_shapes

from zerowidget import words
from zerowidget.advice import advice, costs_text, explain, formula, movement, rings
from zerowidget.compare import differences
from zerowidget.layout import layout_of
from zerowidget.rows import STAGES, communication_rows, memory_rows, steps_of, summary, timeline_rows
from zerowidget.specs import (
    DTYPE_BYTES,
    FIELDS,
    GPUS,
    RECIPES,
    Setup,
    check,
    cluster_of,
    options,
    parse_count,
    transformer_of,
)
from zerowidget.timeline import Step, step_of

VECTORS = Path(__file__).with_name("vectors")
GIB = 2.0**30
RANDOM_SETUPS = 320

Values = dict[str, Any]


# Setups


def corners() -> dict[str, Values]:
    """Setups chosen by hand, by name."""
    chosen: dict[str, Values] = {
        "the defaults": {},
        "one GPU": {"n": 1},
        "one GPU, textbook schedule": {"n": 1, "prefetch": 0, "recompute": True, "layers": 3},
        "two GPUs": {"n": 2},
        "one parameter": {"N": 1.0, "n": 1, "layers": 1},
        "one parameter over many GPUs": {"N": 1.0, "n": 10_000_000, "layers": 7},
        "the largest N": {"N": 1e16, "n": 4096, "layers": 126},
        "the largest N on one GPU": {"N": 1e16, "n": 1, "layers": 2},
        "a fraction of a parameter per layer": {"N": 7.3, "layers": 96, "prefetch": 3},
        "no prefetch": {"prefetch": 0},
        "prefetch 3": {"prefetch": 3},
        "everything prefetched": {"prefetch": 1024},
        "one layer": {"layers": 1},
        "one layer, no prefetch": {"layers": 1, "prefetch": 0},
        "two layers, accumulated": {"layers": 2, "accumulation": 4, "prefetch": 3},
        "126 layers, recomputed": {"N": 405e9, "n": 1024, "layers": 126, "recompute": True, "hidden": 16384},
        "1024 layers": {"N": 1e12, "n": 512, "layers": 1024},
        "1000 layers, all prefetched": {"N": 1e12, "n": 512, "layers": 1000, "prefetch": 1024},
        "the most accumulation": {"layers": 4, "accumulation": 256, "n": 16},
        "accumulation": {"accumulation": 4},
        "accumulation, recomputed": {"accumulation": 4, "recompute": True, "hidden": 4096},
        "accumulation on one GPU": {"accumulation": 4, "n": 1},
        "one GPU under a node": {"n": 7},
        "a full node": {"n": 8},
        "one GPU over a node": {"n": 9},
        "a node of one": {"n": 2, "gpus_per_node": 1},
        "a node larger than the cluster": {"n": 64, "gpus_per_node": 72, "gpu": "B200-180GB"},
        "a network faster than the node": {"gpu": "T4", "link": "InfiniBand-XDR", "n": 32},
        "a node's link shared by many": {"link": "Ethernet-10G", "gpus_per_node": 1024, "n": 2048},
        "waiting for the network": {"link": "Ethernet-25G", "micro_batch": 1, "seq_len": 128},
        "nothing fits": {"N": 1e12, "n": 8},
        "nothing ever fits": {"N": 1e16, "gpu": "T4", "recipe": "adam-main-grads"},
        "only stage 3 fits": {"N": 70e9, "n": 64},
        "fits at rest but not at the peak": {"N": 79e9, "n": 64, "layers": 1, "gpu": "B200-180GB"},
        "all fits": {"N": 350e6, "n": 8},
        "hidden given": {"hidden": 4096, "N": 6.7e9},
        "the longest step": {
            "N": 1e16, "n": 2, "layers": 126, "hidden": 1048576, "seq_len": 16777216, "micro_batch": 65536,
            "accumulation": 1, "utilization": 0.01, "gpu": "T4", "recompute": True,
        },
        "the shortest step": {"N": 1.0, "layers": 1, "seq_len": 1, "micro_batch": 1, "utilization": 1.0},
        "decimal units": {"unit": "GB"},
        "Chinese": {"language": "zh"},
        "Chinese, nothing fits": {"language": "zh", "unit": "GB", "N": 1e12, "n": 8},
        "Chinese, nothing ever fits": {"language": "zh", "N": 1e16, "gpu": "T4", "recipe": "adam-main-grads"},
        "Chinese, one GPU": {"language": "zh", "n": 1},
        # exactly halfway between two printed texts
        "41.25 GiB": {"N": 41.25 * GIB / 16.0, "n": 1},
        "8.125 GiB": {"N": 8.125 * GIB / 16.0, "n": 1},
        "0.125 GiB": {"N": 0.125 * GIB / 16.0, "n": 1},
        "0.0625 GiB": {"N": 0.0625 * GIB / 16.0, "n": 1},
        "1024.5 GiB": {"N": 1024.5 * GIB / 16.0, "n": 1},
        "1.2345e9 parameters": {"N": 1234500000.0, "n": 2},
        "2.125B elements moved": {"N": 1062500000.0, "n": 2},
        "41.25 GB": {"N": 41.25e9 / 16.0, "n": 1, "unit": "GB"},
    }  # fmt: skip
    chosen |= system_corners()
    for recipe in RECIPES:
        chosen[f"recipe {recipe}"] = {"recipe": recipe, "layers": 4, "stage": 2}
    for gpu in GPUS:
        chosen[f"gpu {gpu}"] = {"gpu": gpu, "layers": 4, "n": 16, "hidden": 4096}
    for link in options("link"):
        chosen[f"link {link}"] = {"link": link, "layers": 4, "n": 24, "prefetch": 2}
    return chosen


def system_corners() -> dict[str, Values]:
    """Every knob of the real systems, on small models and on large ones."""
    tiny = tinygpt_shapes()
    fsdp2: list[Values] = [
        {},
        {"n": 1},
        {"reshard_after_forward": True},
        {"reshard_after_forward": False},
        {"reshard_after_forward": 2},
        {"reshard_after_forward": 8, "shard_size": 16},
        {"shard_size": 8},
        {"shard_size": 4, "accumulation": 2},
        {"param_dtype": "float32", "reduce_dtype": None},
        {"reduce_dtype": None, "recipe": "adam-bf16"},
        {"accumulation": 3},
        {"accumulation": 3, "sync_every_micro_batch": False},
        {"recompute": True, "hidden": 256},
        {"prefetch": 2},
        {"prefetch": 0, "link": "Ethernet-10G"},
        {"language": "zh", "compare": "deepspeed"},
    ]
    deepspeed: list[Values] = [
        {},
        {"n": 1},
        {"n": 8, "gpus_per_node": 8, "overlap_comm": True},
        {"overlap_comm": False},
        {"contiguous_gradients": False},
        {"param_dtype": "float32"},
        {"grad_accum_dtype": "float32"},
        {"offload": "cpu"},
        {"accumulation": 3},
        {"accumulation": 2, "recompute": True},
        {"use_multi_rank_bucket_allreduce": False, "reduce_bucket_size": 500_000},
        {"stage3_max_live_parameters": 1_000_000, "stage3_prefetch_bucket_size": 800_000},
        {"stage3_prefetch_bucket_size": 0, "stage3_param_persistence_threshold": 0},
        {"stage3_max_reuse_distance": 0, "stage3_param_persistence_threshold": 1000, "reduce_bucket_size": 1},
        {"zero_hpz_partition_size": 8},
        {"zero_hpz_partition_size": 8, "zero_quantized_weights": True, "zero_quantized_gradients": True},
        {"language": "zh", "compare": "fsdp2"},
        {"compare": "paper", "unit": "GB"},
    ]
    models: dict[str, Values] = {
        "": {"layers": 4},
        " tiny": {"shapes": tuple(tiny.items()), "n": 64, "seq_len": 32},
        " tied": {"shapes": tuple(tinygpt_shapes(L=2, h=42, vocab=1021, tied=True).items()), "n": 16},
        " blocks": {"shapes": tuple(blocks_only_shapes().items()), "n": 64},
    }
    chosen: dict[str, Values] = {}
    for system, knobs in (("fsdp2", fsdp2), ("deepspeed", deepspeed)):
        for model, shape in models.items():
            for index, values in enumerate(knobs):
                chosen[f"{system}{model} {index}"] = {"system": system, **shape, **values}
        chosen[f"{system} 7.5e9"] = {"system": system}
        chosen[f"{system} one parameter"] = {"system": system, "N": 1.0, "layers": 7, "n": 3}
        chosen[f"{system} the largest"] = {"system": system, "N": 1e16, "n": 4096, "layers": 126}
    chosen["the paper, compared"] = {"compare": "fsdp2", "layers": 4}
    chosen["the paper of a real model"] = {"shapes": tuple(tiny.items()), "n": 2}
    return chosen


def pick(random: Random, values: Any) -> Any:
    """One of ``values``."""
    return list(values)[int(random.random() * len(values))]


def between(random: Random, low: int, high: int) -> int:
    """A whole number, as likely small as large: every power of two in the range has the same chance."""
    powers = [power for power in range(high.bit_length()) if 2**power <= high]
    number = 2 ** pick(random, powers)
    return max(low, min(high, number + int(random.random() * number)))


def draw(random: Random) -> Values:
    """A setup over all fields; a third of them keep their default."""
    layers = between(random, 1, 96)
    values: Values = {
        "N": (1.0 + 9.0 * random.random()) * float(f"1e{pick(random, range(5, 15))}"),
        "n": pick(
            random, (1, 2, 4, 8, 16, 64, 1024, between(random, 1, 300), between(random, 1, 10_000_000))
        ),
        "stage": pick(random, STAGES),
        "recipe": pick(random, RECIPES),
        "layers": layers,
        "hidden": between(random, 1, 65536),
        "seq_len": between(random, 1, 131072),
        "micro_batch": between(random, 1, 64),
        "accumulation": between(random, 1, max(1, min(8, 256 // layers))),
        "recompute": pick(random, (False, True)),
        "gpu": pick(random, GPUS),
        "gpus_per_node": pick(random, (1, 2, 4, 8, 16, 72, between(random, 1, 1024))),
        "link": pick(random, options("link")),
        "utilization": 0.01 + 0.99 * random.random(),
        "prefetch": pick(random, (0, 1, 2, 3, 4, 7, 16, between(random, 0, 1024))),
        "unit": pick(random, ("GiB", "GB")),
        "language": pick(random, ("en", "zh")),
    }
    values |= {
        "system": pick(random, ("paper", "deepspeed", "fsdp2")),
        "compare": pick(random, (None, None, None, "paper", "deepspeed", "fsdp2")),
        "param_dtype": pick(random, DTYPE_BYTES),
        "reduce_dtype": pick(random, (None, *DTYPE_BYTES)),
        "grad_accum_dtype": pick(random, (None, *DTYPE_BYTES)),
        "reshard_after_forward": pick(random, (None, True, False, 2, 4, 8)),
        "shard_size": pick(random, (None, 1, 2, 8, 16)),
        "sync_every_micro_batch": pick(random, (False, True)),
        "stage3_prefetch_bucket_size": pick(random, (0, between(random, 1, 2**40))),
        "stage3_max_live_parameters": pick(random, (0, between(random, 1, 2**40))),
        "stage3_max_reuse_distance": pick(random, (0, between(random, 1, 2**40))),
        "stage3_param_persistence_threshold": pick(random, (0, between(random, 1, 2**36))),
        "reduce_bucket_size": between(random, 1, 2**36),
        "allgather_bucket_size": between(random, 1, 2**36),
        "overlap_comm": pick(random, (None, False, True)),
        "contiguous_gradients": pick(random, (False, True)),
        "use_multi_rank_bucket_allreduce": pick(random, (False, True)),
        "zero_hpz_partition_size": pick(random, (1, 2, 8)),
        "zero_quantized_weights": pick(random, (False, True)),
        "zero_quantized_gradients": pick(random, (False, True)),
        "offload": pick(random, ("none", "cpu")),
    }
    chosen = {name: value for name, value in values.items() if random.random() < 2.0 / 3.0}
    try:
        for system in ("paper", "deepspeed", "fsdp2"):
            Setup(**{**chosen, "system": system})
    except ValueError:  # sizes that do not divide
        return draw(random)
    return chosen


def fingerprint(setup: Setup, step: Step) -> list[Any]:
    """A step in a few columns: its seconds, how many spans and live entries, and a hash of all their numbers
    (64-bit floats, little-endian, None as -1) and texts."""
    rows = timeline_rows(setup, step)
    numbers: list[float] = []
    texts: list[str] = []
    for row in rows:
        waits_for = -1 if row["waits_for"] is None else row["waits_for"]
        numbers += [row["start"], row["end"], row["elements"], row["nbytes"], waits_for, row["exposed"]]
        numbers.append(row["ranks"])
        texts += [row["op"], row["group"], row["phase"], row["stream"], row["dtype"], row["module"]]
    for live in [*step.live, step.peak]:
        numbers += live
    content = struct.pack(f"<{len(numbers)}d", *numbers) + "\n".join(texts).encode()
    return [step.seconds, len(rows), len(step.live), hashlib.sha256(content).hexdigest()[:16]]


def layout_fingerprint(setup: Setup) -> str:
    """A hash of all numbers of the layout (64-bit floats, little-endian) and its texts."""
    parameters, modules = layout_of(setup)
    numbers: list[float] = []
    texts: list[str] = []
    for parameter in parameters:
        numbers += [parameter.elements, parameter.rows, parameter.flat]
        texts.append(parameter.name)
    for module in modules:
        numbers += [module.forward_flops, *module.parameters]
        texts += [module.name, module.group]
    content = struct.pack(f"<{len(numbers)}d", *numbers) + "\n".join(texts).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def setup_vectors() -> dict[str, Any]:
    """Per setup: its changed fields and all that leaves the core, rows as lists of values."""
    random = Random(1910)
    named = corners() | {f"random {index}": draw(random) for index in range(RANDOM_SETUPS)}
    columns: dict[str, list[str]] = {}
    vectors = []
    for name, values in named.items():
        setup = Setup(**values)
        steps = steps_of(setup)
        stages = summary(setup, steps)
        tables = {
            "cluster": [asdict(cluster_of(setup))],
            "transformer": [asdict(transformer_of(setup))],
            "memory": memory_rows(setup, steps),
            "communication": communication_rows(setup, steps),
            "differences": differences(setup),
            "summary": stages,
            "advice": [advice(setup, rows=stages)],
            "explain": [explain(setup, rows=stages)],
        }
        vector: dict[str, Any] = {"name": name, "setup": setup.changed()}
        for table, rows in tables.items():
            for row in rows:
                assert columns.setdefault(table, list(row)) == list(row)
            vector[table] = [list(row.values()) for row in rows]
        vector["texts"] = [
            [costs_text(setup, row), formula(setup, row["stage"]), movement(setup, row), rings(setup, step)]
            for row, step in zip(stages, steps, strict=True)
        ]
        vector["layout"] = layout_fingerprint(setup)
        vector["steps"] = [fingerprint(setup, step) for step in steps]
        vectors.append(vector)
    return {"columns": columns, "vectors": vectors}


def timeline_vectors() -> dict[str, Any]:
    """Whole timelines of small setups, every row and every change of what is live."""
    small: list[Values] = [
        {"layers": 3},
        {"layers": 3, "prefetch": 0},
        {"layers": 3, "prefetch": 2, "recompute": True},
        {"layers": 2, "accumulation": 2},
        {"layers": 2, "accumulation": 2, "recompute": True, "prefetch": 4},
        {"layers": 1, "n": 2},
        {"layers": 3, "n": 1},
        {"layers": 3, "n": 9, "link": "Ethernet-10G", "micro_batch": 1, "prefetch": 1},
        {"layers": 4, "n": 512, "recipe": "adam-fp32-grads", "hidden": 4096, "seq_len": 8192},
        {"layers": 4, "N": 70e9, "gpu": "T4", "seq_len": 16, "prefetch": 3},
    ]
    columns: list[str] = []
    vectors = []
    small += [
        {"system": system, **model, **knobs}
        for system in ("fsdp2", "deepspeed")
        for model in ({"layers": 2}, {"shapes": tuple(tinygpt_shapes(L=2).items()), "n": 4})
        for knobs in ({}, {"accumulation": 2})
    ]
    small.append({"system": "fsdp2", "layers": 2, "shard_size": 8})
    for values in small:
        for stage in STAGES:
            setup = Setup(**values, stage=stage)
            step = step_of(setup, stage)
            rows = timeline_rows(setup, step)
            columns = list(rows[0])
            vectors.append(
                {
                    "setup": {**setup.changed(), "stage": stage},
                    "rows": [list(row.values()) for row in rows],
                    "live": step.live,
                    "peak": step.peak,
                }
            )
    return {"columns": columns, "vectors": vectors}


# Words


def encoded(value: Any) -> Any:
    """A value as JSON can hold it: NaN and the infinities as {"number": "NaN"}."""
    names = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    return {"number": names[str(value)]} if str(value) in names and isinstance(value, float) else value


def message_of(call: Any, *arguments: Any, **named: Any) -> str:
    """What the call complains about."""
    try:
        call(*arguments, **named)
    except ValueError as error:
        return str(error)
    raise AssertionError(f"{arguments} {named} was taken")


def error_vectors() -> list[Any]:
    """[field, value, language, message] for values that the field cannot take."""
    longs = ["x" * 58, "x" * 59, "x" * 200, "显" * 70]
    bad = {
        "N": [0, 0.5, -1.0, -0.0, 1.5e16, 1e21, 1e22, 1.5e300, nan, inf, -inf, "7.5B", True, None],
        "n": [0, -3, 0.5, 64.5, 10_000_001, 1e-5, 1e-7, 1.25e-7, nan, "64", "", None, False],
        "stage": [4, -1, 1.5, "3", True, None, nan],
        "system": ["Paper", "megatron", 0, None],
        "compare": ["nothing", True],
        "reshard_after_forward": [0, -1, 2.5, "True", nan],
        "shard_size": [0, 1.5],
        "param_dtype": ["bf16", None],
        "overlap_comm": [1, "auto"],
        "stage3_prefetch_bucket_size": ["auto", -1, 2e16],
        "shapes": ["", "x"],
        "recipe": ["adam", "", 3, None],
        "layers": [0, 1025, 2.000001],
        "hidden": [0, -1, 0.1, 1048577, "4096", False],
        "recompute": [1, 0, "True", "no", None, 2.5],
        "gpu": ["H100", "it's", 'say "no"', "it's \"both\"", "C:\\gpu\t1\n2\r", "显卡", *longs],
        "link": ["NVLink-4", "InfiniBand-NDR ", 400],
        "utilization": [0, 0.009, 1.01, 1e-5, 0.0001, 0.00012345, nan, "40 %"],
        "prefetch": [-1, 1025, 0.5],
        "unit": ["gib", "MB", 1024],
        "language": ["de", "EN"],
    }  # fmt: skip
    return [
        [name, encoded(value), language, message_of(check, name, value, language)]
        for name, values in bad.items()
        for value in values
        for language in ("en", "zh")
    ]


def good_vectors() -> list[Any]:
    """[field, value, value as stored] at the edges of what the fields take."""
    good = {
        "stage": [0, 3, 2.0, -0.0],
        "hidden": [None, 1, 4096.0],
        "prefetch": [0, -0.0, 1024],
        "n": [1, 10_000_000, 64.0],
        "N": [1, 1e16, 7],
        "utilization": [0.01, 1],
        "recompute": [True, False],
        "unit": ["GB"],
        "compare": [None, "fsdp2"],
        "reshard_after_forward": [None, True, False, 1, 64.0],
        "overlap_comm": [None, True, False],
        "stage3_max_live_parameters": [0, 1e9, 1e15],
    }
    return [[name, value, check(name, value)] for name, values in good.items() for value in values]


COUNTS = """
7.5e9 7.5B 70b 350M 1,000 1_000 1.5T 2G 2g 0 0.5 .5 5. 5.e3 +5 -5 1e+3 1E3 1e-3 -0 0b 0.1B 1.1T 007 7.3e-320
1e400 1e308T 12,345,678.5 1,000K 7,500,000,000 -1,000
"""
NO_COUNTS = "B seven 7.5BB 1x2 0x10 nan inf Infinity e5 1e . --5 1e5.5 5- ٣ 7,5,B! 1e5M- it's 7,5 7,5B 1,00 ,100 1,0000 1,,000 1,000,"


def count_vectors() -> list[Any]:
    """[text, count, None] or [text, None, message]."""
    good = [*COUNTS.split(), "350 M", " 64 ", "\t1k\n"]
    bad = [*NO_COUNTS.split(), "", " ", "7.5 billion", "1 e", 'a "b"', "y" * 80]
    rows = [[text, encoded(parse_count(text)), None] for text in good]
    return rows + [[text, None, message_of(parse_count, text)] for text in bad]


def disagreeing_vectors() -> list[Any]:
    """[setup, message] for setups whose fields do not go together."""
    long: list[Values] = [{"layers": 1024, "accumulation": 17}, {"layers": 65, "accumulation": 256}]
    shapes = list(tinygpt_shapes(L=16).items())
    long += [
        {"system": "fsdp2", "shard_size": 3},
        {"system": "fsdp2", "shard_size": 16, "reshard_after_forward": 3},
        {"system": "deepspeed", "zero_hpz_partition_size": 48},
        {"shapes": shapes, "N": 7.0},
        {"shapes": shapes, "layers": 15},
        {"shapes": shapes, "accumulation": 256},
        {"shapes": [["a", [1]], ["b", "c"]]},
    ]
    return [[values, message_of(Setup, **values)] for values in long]


TIES = """
0.5 1.5 2.5 0.25 0.75 0.125 0.375 0.0625 0.3125 8.125 41.25 14.25 99.5 100.5 999.5 1000.5 1023.5 1024.5 2.125
1234.5 12345 1234500000 1235500000 99995 9999500000
"""
TURNS = """
0 1 9 10 99 100 999 1000 1023 1024 0.1 0.01 0.001 0.0005 0.0004999 0.995 1.005 2.675 9.995 9.9949999 9.95
99.95 0.09999 0.9999 1.0049 2.03125 0.30000000000000004 0.0001 0.000099 0.00001 0.00000125 1e-7 1.5e-10 5e-324
1e-300 1e5 1e6 999999 999950000 1e9 1e12 999.5e9 1e15 1000000000000000.5 9007199254740991 9007199254740992
1e16 1.6e17 123456789012345678 1e18 1.6e19 1e20 9.99e20 999999999999999868928
"""


def numbers() -> list[float]:
    """Non-negative numbers where formats turn: ties, edges of prefixes, very small, very large."""
    edges = [float(text) for text in (TIES + TURNS).split()]
    edges += [1024.0**power for power in range(6)] + [1000.0**power for power in range(6)]
    edges += [1023.99 * 1024.0**power for power in range(6)] + [999.5 * 1000.0**power for power in range(6)]
    random = Random(2020)
    drawn = [(1.0 + 9.0 * random.random()) * float(f"1e{power}") for power in 3 * [*range(-12, 20)]]
    quarters = [int(random.random() * 4096) / 16.0 for _ in range(60)]
    return sorted({*edges, *drawn, *quarters})


def format_vectors() -> list[Any]:
    """[function of words, arguments, text]."""
    calls: list[tuple[str, list[Any]]] = []
    for x in numbers():
        calls += [(name, [x, digits]) for name in ("fixed", "trimmed") for digits in (0, 1, 2, 3)]
        calls += [("exponential", [x, digits]) for digits in (0, 3)]
        calls += [(name, [x]) for name in ("plain", "significant", "amount", "duration", "count")]
        calls += [(name, [x, unit]) for name in ("size", "scaled_size") for unit in ("GiB", "GB")]
    calls += [("fixed", [x, digits]) for x in (-0.4, -0.5, -2.5, -41.25) for digits in (0, 1)]
    return [[name, arguments, getattr(words, name)(*arguments)] for name, arguments in calls]


def say_vectors() -> list[Any]:
    """[key, language, values, text]: what is put in is put in as it stands."""
    key = "headline"
    dollars: Values = {"stage": 3, "rest": "$& $1 $$ \\1 1.7 GiB"}
    rows: list[Values] = [dollars, {"stage": "{rest}", "rest": "{stage}"}, {"rest": "{{stage}}"}, {}]
    return [
        [key, language, row, words.say(key, language, **row)] for language in ("en", "zh") for row in rows
    ]


def word_vectors() -> dict[str, Any]:
    """All that is about texts."""
    return {
        "errors": error_vectors(),
        "good": good_vectors(),
        "disagreeing": disagreeing_vectors(),
        "parse_count": count_vectors(),
        "formats": format_vectors(),
        "say": say_vectors(),
        "options": [[name, options(name)] for name, rule in FIELDS.items() if rule["type"] == "choice"],
    }


def lines(content: dict[str, Any]) -> str:
    """JSON with one entry of each list per line, so that a difference reads well."""
    parts = []
    for key, value in content.items():
        if isinstance(value, dict):
            entries = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in value.items()]
            opening, closing = "{}"
        else:
            entries = [json.dumps(entry, ensure_ascii=False, allow_nan=False) for entry in value]
            opening, closing = "[]"
        inner = ",\n".join(entries)
        parts.append(f"{json.dumps(key)}: {opening}\n{inner}\n{closing}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


FILES = {"setups.json": setup_vectors, "timelines.json": timeline_vectors, "words.json": word_vectors}


def text_of(name: str) -> str:
    """What the vector file ``name`` must contain."""
    return lines(FILES[name]())


if __name__ == "__main__":
    VECTORS.mkdir(exist_ok=True)
    for file in FILES:
        (VECTORS / file).write_text(text_of(file), encoding="utf-8", newline="\n")
