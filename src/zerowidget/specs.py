"""What a user may say: one frozen ``Setup``, checked once, and the parts that follow from it.

Names, rules and defaults of the fields stand in ``data/fields.json``, which the front end reads too.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, fields, replace
from typing import Any

from .data import load
from .words import plain, say

FIELDS = load("fields")
GPUS = load("gpus")
LINKS = load("links")
RECIPES = load("recipes")

MAX_LAYER_STEPS = 16384
"""Bound on layers x accumulation: past it the timeline is longer than anyone can read."""


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
    if rule["type"] == "bool":
        if value is not True and value is not False:
            raise refuse("rule_bool")
        return value
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
    recipe: str
    layers: int
    hidden: int | None
    seq_len: int
    micro_batch: int
    accumulation: int
    recompute: bool
    gpu: str
    gpus_per_node: int
    link: str
    utilization: float
    prefetch: int
    unit: str
    language: str

    def __init__(self, **values: Any) -> None:
        for name in values:
            if name not in FIELDS:
                raise unknown(name)
        for name, rule in FIELDS.items():
            object.__setattr__(self, name, check(name, values.get(name, rule["default"])))
        if self.layers * self.accumulation > MAX_LAYER_STEPS:
            product = f"{self.layers} x {self.accumulation}"
            limit = say("rule_max", "en", limit=MAX_LAYER_STEPS)
            raise ValueError(say("error", "en", name="layers x accumulation", rule=limit, value=product))

    def but(self, **values: Any) -> Setup:
        """A copy with some fields changed, checked again."""
        return replace(self, **values)

    def changed(self) -> dict[str, Any]:
        """The fields that differ from their default."""
        chosen = {field.name: getattr(self, field.name) for field in fields(self)}
        defaults = {name: check(name, rule["default"]) for name, rule in FIELDS.items()}
        return {name: value for name, value in chosen.items() if value != defaults[name]}


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


def cluster_of(setup: Setup) -> Cluster:
    """The GPU, and the slowest link that a ring over all n ranks crosses.

    Of the GPUs of a node only one sends to the next node on any one ring, and NCCL lays as many rings as it
    takes to use every network port: between nodes a rank gets what all ports of its node carry together.
    """
    gpu = GPUS[setup.gpu]
    inside = gpu["link"]
    between = setup.link
    ports = float(setup.gpus_per_node) if LINKS[between]["per"] == "gpu" else 1.0
    across = LINKS[between]["bandwidth"] * ports
    crossed = setup.n > setup.gpus_per_node and across < LINKS[inside]["bandwidth"]
    link = between if crossed else inside
    return Cluster(
        n=setup.n,
        capacity=gpu["memory_MiB"] * 1048576.0,
        flops=gpu["flops"] * setup.utilization,
        memory_bandwidth=gpu["memory_bandwidth"],
        bandwidth=across if crossed else LINKS[inside]["bandwidth"],
        latency=LINKS[between if setup.n > setup.gpus_per_node else inside]["latency"],
        link=link,
    )
