"""What a user may say: one frozen ``Setup``, checked once, and the parts that follow from it.

Names, rules and defaults of the fields stand in ``data/fields.json``, which the front end reads too.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import islice
from typing import Any

from .data import load
from .words import plain, say

FIELDS = load("fields")
GPUS = load("gpus")
LINKS = load("links")
RECIPES = load("recipes")

MAX_LAYER_STEPS = 16384
"""Bound on layers x accumulation: past it the timeline is longer than anyone can read."""

DTYPE_BYTES = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0}

Shape = tuple[int, ...] | str
"""The lengths of a parameter's dimensions, or the name of the earlier parameter whose memory it shares."""

MAX_SHAPES = 4096
MAX_NAME = 200
MAX_DIMENSIONS = 8
MAX_LENGTH = 2**40
"""Bounds on the shapes of a model: parameters, letters of a name, dimensions and their lengths."""


def options(name: str) -> list[Any]:
    """The values a choice field takes."""
    listed = FIELDS[name]["options"]
    if listed == "links":
        return [key for key, link in LINKS.items() if link["scope"] == "between"]
    return list({"gpus": GPUS, "recipes": RECIPES}[listed]) if isinstance(listed, str) else list(listed)


def shown(value: Any) -> str:
    """A value as an error prints it."""
    if is_number(value):
        if -1e21 < value < 1e21:
            return plain(float(value))
        return "a number past all bounds" if isinstance(value, numbers.Rational) else repr(float(value))
    return repr(value) if len(repr(value)) <= 60 else repr(value)[:57] + "..."


def is_number(value: object) -> bool:
    """Whether it is a real number; True and False are not meant as 1 and 0."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check(name: str, value: Any, language: str = "en") -> Any:
    """``value`` as the field ``name`` stores it (float, int, str, bool or None).

    Raises ValueError, naming field, rule and value, when the field cannot take it.
    """
    rule = FIELDS[name]

    def refuse(key: str, **values: object) -> ValueError:
        allowed = say(key, language, **values)
        return ValueError(say("error", language, name=name, rule=allowed, value=shown(value)))

    if value is None and rule.get("optional"):
        return None
    if rule["type"] == "shapes":
        return check_shapes(name, value, language)
    if rule["type"] == "bool":
        if value is not True and value is not False:
            raise refuse("rule_bool")
        return value
    if rule["type"] == "reshard":
        if value is True or value is False:
            return value
        if not is_number(value) or not -math.inf < value < math.inf or value != int(value) or value < 1:
            raise refuse("rule_reshard")
        return int(value)
    if rule["type"] == "choice":
        allowed = options(name)
        if not (is_number(value) or isinstance(value, str)) or value not in allowed:
            *others, last = [str(option) for option in allowed]
            key = "rule_choice" if others else "rule_only"
            raise refuse(key, others=", ".join(others), last=last)
        return allowed[allowed.index(value)]
    if not is_number(value) or not -math.inf < value < math.inf:
        raise refuse("rule_number" if rule["type"] == "number" else "rule_whole")
    if rule["type"] == "whole" and value != int(value):
        raise refuse("rule_whole")
    if value < rule["min"]:
        raise refuse("rule_min", limit=plain(rule["min"]))
    if value > rule["max"]:
        raise refuse("rule_max", limit=plain(rule["max"]))
    return float(value) if rule["type"] == "number" else int(value)


def check_shapes(name: str, value: Any, language: str = "en") -> tuple[tuple[str, Shape], ...]:
    """The shapes of a model's parameters, by name, in the order of the model: a mapping or a list of pairs.

    Raises ValueError, naming the entry, when they are none.
    """

    def refuse(entry: object, **values: object) -> ValueError:
        limits = {"most": MAX_SHAPES, "letters": MAX_NAME, "dimensions": MAX_DIMENSIONS}
        rule = say("rule_shapes", language, **limits)
        return ValueError(say("error", language, name=name, rule=rule, value=shown(entry)))

    if isinstance(value, str | bytes | set | frozenset):  # sets have no order
        raise refuse(value)
    try:
        pairs = list(islice(value.items() if hasattr(value, "items") else value, MAX_SHAPES + 1))
    except TypeError:
        raise refuse(value) from None
    if not 1 <= len(pairs) <= MAX_SHAPES:
        raise refuse(value)
    stored: dict[str, Shape] = {}
    elements = 0
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise refuse(pair)
        parameter, shape = pair
        if not isinstance(parameter, str) or not 1 <= len(parameter) <= MAX_NAME or parameter in stored:
            raise refuse(parameter)
        if not parameter.isprintable():  # nor what no file can hold
            raise refuse(parameter)
        if isinstance(shape, str):
            if not isinstance(stored.get(shape), tuple):
                raise refuse(f"{parameter}: {shape}")
            stored[parameter] = shape
            continue
        if not isinstance(shape, list | tuple) or len(shape) > MAX_DIMENSIONS:
            raise refuse(f"{parameter}: {shape}")
        if not all(
            is_number(length) and 1 <= length <= MAX_LENGTH and length == int(length) for length in shape
        ):
            raise refuse(f"{parameter}: {list(shape)}")
        stored[parameter] = tuple(int(length) for length in shape)
        elements += math.prod(int(length) for length in shape)
    if elements > FIELDS["N"]["max"]:
        raise refuse(f"{elements} elements")
    return tuple(stored.items())


class UnknownField(TypeError):
    """A name that is no field."""


def unknown(name: str) -> UnknownField:
    """The error for a name that is no field, with the nearest one that is."""
    from difflib import get_close_matches  # only mistakes pay for it

    near = get_close_matches(name, FIELDS, n=1, cutoff=0.5)
    hint = say("error_near", "en", near=near[0]) if near else ""
    return UnknownField(say("error_unknown", "en", name=name) + hint)


@dataclass(frozen=True, init=False)
class Setup:
    """Everything a user chooses; every number the package prints is a function of it.

    All fields are keyword arguments and have a default. ``N``: parameters. ``n``: data-parallel degree
    (GPUs). ``stage``: the selected ZeRO stage, 0-3. ``layers``: equal layers that N is spread over.
    ``hidden``: model width; None leaves attention out of the FLOPs. ``seq_len``, ``micro_batch``: tokens
    per GPU and micro-step. ``utilization``: share of the GPU's peak FLOPs reached. ``prefetch``: layers
    gathered ahead. The rest: docs/model.md.

    Raises ValueError for a value that its field cannot take, TypeError for an unknown field.

    >>> Setup(N=7.5e9, n=64).stage
    3
    >>> Setup(n=0)
    Traceback (most recent call last):
    ValueError: n must be at least 1, got 0
    """

    N: float
    n: int
    stage: int
    system: str
    compare: str | None
    recipe: str
    layers: int
    hidden: int | None
    shapes: tuple[tuple[str, Shape], ...] | None
    seq_len: int
    micro_batch: int
    accumulation: int
    recompute: bool
    gpu: str
    gpus_per_node: int
    link: str
    utilization: float
    prefetch: int
    param_dtype: str
    reduce_dtype: str | None
    grad_accum_dtype: str | None
    reshard_after_forward: bool | int | None
    shard_size: int | None
    sync_every_micro_batch: bool
    stage3_prefetch_bucket_size: int
    stage3_max_live_parameters: int
    stage3_max_reuse_distance: int
    stage3_param_persistence_threshold: int
    reduce_bucket_size: int
    allgather_bucket_size: int
    overlap_comm: bool | None
    contiguous_gradients: bool
    use_multi_rank_bucket_allreduce: bool
    zero_hpz_partition_size: int
    zero_quantized_weights: bool
    zero_quantized_gradients: bool
    offload: str
    unit: str
    language: str

    def __init__(self, **values: Any) -> None:
        for name in values:
            if name not in FIELDS:
                raise unknown(name)
        if values.get("shapes") is not None:
            shapes = check("shapes", values["shapes"])
            values = {**counted(shapes), **values, "shapes": shapes}
        for name, rule in FIELDS.items():
            object.__setattr__(self, name, check(name, values.get(name, rule["default"])))
        agree(self)

    @classmethod
    def from_shapes(cls, shapes: Any, **values: Any) -> Setup:
        """A setup of the parameters of a real model; ``N`` and ``layers`` follow from them.

        ``shapes``: a mapping of names to shapes in the order of the model, as in
        ``{name: parameter.shape for name, parameter in model.named_parameters()}``. In the place of a shape
        stands the name of an earlier parameter where the two share their memory.

        >>> Setup.from_shapes({"tok.weight": (10, 4), "blocks.0.up.weight": (8, 4)}, n=2).N
        72.0
        """
        return cls(shapes=shapes, **values)

    def but(self, **values: Any) -> Setup:
        """A copy with some fields changed, checked again; other shapes bring their own N and layers."""
        if "shapes" in values and values["shapes"] is not None:
            shapes = check("shapes", values["shapes"])
            values = {**counted(shapes), **values, "shapes": shapes}
        return replace(self, **values)

    def changed(self) -> dict[str, Any]:
        """The fields that differ from their default."""
        chosen = {field.name: getattr(self, field.name) for field in fields(self)}
        defaults = {name: check(name, rule["default"]) for name, rule in FIELDS.items()}
        return {name: value for name, value in chosen.items() if value != defaults[name]}


@lru_cache(maxsize=8)  # asked for by every copy of a setup; shapes may be thousands
def counted(shapes: tuple[tuple[str, Shape], ...]) -> dict[str, Any]:
    """The fields that follow from the shapes of a model: its elements, and the layers they are in."""
    elements = 0.0
    layers = set()
    for name, shape in shapes:
        if not isinstance(shape, str):
            elements = elements + elements_of(shape)
        layers.add(layer_name(name))
    return {"N": elements, "layers": max(1, len(layers - {""}))}


def elements_of(shape: tuple[int, ...]) -> float:
    """The product of the lengths."""
    elements = 1.0
    for length in shape:
        elements = elements * length
    return elements


def layer_name(name: str) -> str:
    """The part of a parameter's name that tells its layer: "blocks.0.qkv.weight" is in "blocks.0".

    Layers are what stands in a list: the name up to its first number. "" for what is in no list.
    """
    parts = name.split(".")
    for index, part in enumerate(parts[:-1]):
        if part.isdigit() and part.isascii():
            return ".".join(parts[: index + 1])
    return ""


def agree(setup: Setup) -> None:
    """Raises ValueError when fields do not go together; rules of fields that no system on show has rest."""

    def refuse(name: str, rule: str, value: object) -> ValueError:
        return ValueError(say("error", "en", name=name, rule=rule, value=value))

    if setup.layers * setup.accumulation > MAX_LAYER_STEPS:
        product = f"{setup.layers} x {setup.accumulation}"
        raise refuse("layers x accumulation", say("rule_max", "en", limit=MAX_LAYER_STEPS), product)
    if setup.shapes is not None:
        if len(setup.shapes) * setup.accumulation > MAX_LAYER_STEPS:
            product = f"{len(setup.shapes)} x {setup.accumulation}"
            raise refuse("shapes x accumulation", say("rule_max", "en", limit=MAX_LAYER_STEPS), product)
        for name, value in counted(setup.shapes).items():
            if getattr(setup, name) != value:
                rule = say("rule_counted", "en", value=plain(float(value)))
                raise refuse(name, rule, shown(getattr(setup, name)))
    ranks = setup.n
    for name in ("shard_size", "reshard_after_forward", "zero_hpz_partition_size"):
        size = getattr(setup, name)
        systems = FIELDS[name]["systems"]
        if setup.system not in systems and setup.compare not in systems:
            continue
        if size is None or size is True or size is False:
            continue
        if size < ranks and ranks % size != 0:
            raise refuse(name, say("rule_divides", "en", ranks=ranks), size)
        if name == "shard_size":
            ranks = min(ranks, size)


def resized(setup: Setup, n: int, stage: int) -> Setup:
    """The setup on ``n`` GPUs as far as rest at ``stage`` goes: of the sizes that must divide n one matters.

    FSDP2 shards over ``shard_size`` ranks whatever n is: more GPUs than that hold what those hold.
    """
    ranks = n
    if setup.shard_size is not None and setup.system == "fsdp2" and stage >= 2:
        ranks = min(n, setup.shard_size)
    return setup.but(n=ranks, shard_size=None, reshard_after_forward=None, zero_hpz_partition_size=1)


def parse_count(text: str, language: str = "en") -> float:
    """A count as people write it: '7.5e9', '7.5B', '70b', '350 M', '1,000'.

    >>> parse_count("7.5B")
    7500000000.0

    Raises ValueError when the text is no number.
    """
    digits = text.strip().replace("_", "").replace(" ", "")
    scale = {"K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}.get(digits[-1:].upper(), 1.0)
    digits = without_commas(digits if scale == 1.0 else digits[:-1])
    if not digits or digits.strip("0123456789.eE+-"):
        raise ValueError(say("error_count", language, text=shown(text)))
    try:
        return float(digits) * scale
    except ValueError:
        raise ValueError(say("error_count", language, text=shown(text))) from None


def without_commas(digits: str) -> str:
    """Thousands groups joined: '1,000' -> '1000'. A comma that is none stays, for '7,5' is not 75."""
    whole, point, rest = digits.partition(".")
    first, *groups = whole.split(",")
    lead = first.lstrip("+-")
    fits = lead.isdecimal() and len(lead) <= 3
    grouped = fits and all(group.isdecimal() and len(group) == 3 for group in groups)
    return "".join([first, *groups]) + point + rest if grouped else digits


def total(values: list[float]) -> float:
    """Plain left-to-right addition: ``sum`` compensates since Python 3.12, JavaScript does not."""
    result = 0.0
    for value in values:
        result = result + value
    return result


@dataclass(frozen=True)
class Recipe:
    """What a training recipe keeps per parameter.

    ``states``: (state, kind, bytes per parameter) in drawing order; kind is parameters, gradients or
    optimizer. ``param_dtype``, ``grad_dtype``: what travels in all-gathers and in gradient reductions.
    """

    states: tuple[tuple[str, str, float], ...]
    param_dtype: str
    grad_dtype: str

    def bytes_of(self, kind: str) -> float:
        """Bytes per parameter of one kind of state."""
        return total([nbytes for _, of, nbytes in self.states if of == kind])


@dataclass(frozen=True)
class Transformer:
    """The model as the timeline sees it: equal layers. FLOPs are per micro-step and GPU."""

    layers: int
    elements: float  # parameters of one layer
    tokens: float  # per GPU and micro-step
    forward_flops: float  # of one layer; the backward pass takes twice as many


@dataclass(frozen=True)
class Cluster:
    """What one rank computes and sends with."""

    n: int
    capacity: float  # bytes of GPU memory that a program can allocate
    flops: float  # FLOP/s reached, peak times utilization
    memory_bandwidth: float  # bytes/s
    bandwidth: float  # bytes/s, one direction, on the slowest link crossed
    latency: float  # seconds per ring step
    link: str  # key in data/links.json
    leaves: bool  # whether the ring leaves a node


def recipe_of(setup: Setup) -> Recipe:
    """The recipe that ``setup`` names."""
    entry = RECIPES[setup.recipe]
    states = tuple((state, kind, float(nbytes)) for state, kind, nbytes in entry["states"])
    return Recipe(states, entry["param_dtype"], entry["grad_dtype"])


def transformer_of(setup: Setup) -> Transformer:
    """N spread evenly over the layers; 2 FLOPs per parameter and token forward (Kaplan et al. 2020).

    Attention adds 4 s h per token and layer (scores and their sum over values, no causal halving;
    Korthikanti et al. 2022, appendix A) when ``hidden`` is known.
    """
    elements = setup.N / setup.layers
    tokens = float(setup.seq_len) * setup.micro_batch
    attention = 0.0 if setup.hidden is None else 4.0 * setup.seq_len * setup.hidden
    return Transformer(setup.layers, elements, tokens, (2.0 * elements + attention) * tokens)


def cluster_of(setup: Setup, ranks: int | None = None, apart: int = 1) -> Cluster:
    """The GPU, and the slowest link that a ring over ``ranks`` ranks crosses, all n when not given.

    Ranks are numbered node by node; ``apart``: the distance between neighbours of the ring, 1 when it goes
    through every rank of a node before it leaves it.

    Of the GPUs of a node only one sends to the next node on any one ring, and NCCL lays as many rings as it
    takes to use every network port: between nodes a rank gets what all ports of its node carry together.
    Rings ``apart`` ranks apart run beside each other and share the ports.
    """
    n = setup.n if ranks is None else ranks
    gpu = GPUS[setup.gpu]
    inside = gpu["link"]
    between = setup.link
    ports = float(setup.gpus_per_node) if LINKS[between]["per"] == "gpu" else 1.0
    across = LINKS[between]["bandwidth"] * ports / min(apart, setup.gpus_per_node)
    leaves = n * apart > setup.gpus_per_node and n > 1
    crossed = leaves and across < LINKS[inside]["bandwidth"]
    link = between if crossed else inside
    return Cluster(
        n=n,
        capacity=gpu["memory_MiB"] * 1048576.0,
        flops=gpu["flops"] * setup.utilization,
        memory_bandwidth=gpu["memory_bandwidth"],
        bandwidth=across if crossed else LINKS[inside]["bandwidth"],
        latency=LINKS[between if leaves else inside]["latency"],
        link=link,
        leaves=leaves,
    )
