"""Which stage to choose, and the numbers in words."""

from __future__ import annotations

from typing import Any

from .memory import at_rest, nbytes_of
from .program import Op
from .rows import summary
from .specs import FIELDS, GPUS, LINKS, Cluster, Setup, cluster_of, resized, total
from .systems import collectives_of
from .timeline import Step, step_of
from .words import amount, count, duration, exponential, in_unit, plain, say, scaled_size, size, trimmed


def advice(setup: Setup, *, rows: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """The lowest stage that fits the GPU, and why; ``rows``: the summary, if at hand.

    That fits at the peak of its step; where none does, whose model states fit at rest.

    Keys: ``stage`` (None when none fits), ``capacity``, ``rest``, ``peak`` (bytes, of that stage or of stage
    3), ``fits_peak``, ``relative`` (communication against plain data parallelism, None on one GPU),
    ``smallest_n`` (GPUs from which stage 3 fits; None when some stage fits already, or none ever does),
    ``break_even`` (bytes/s, see there, of stage 3), ``text``.
    """
    rows = rows or summary(setup)
    fitting = [row for row in rows if row["fits_peak"]] or [row for row in rows if row["fits"]]
    row = fitting[0] if fitting else rows[3]
    chosen = {"stage": row["stage"] if fitting else None, "capacity": cluster_of(setup).capacity}
    chosen |= {key: row[key] for key in ("rest", "peak", "fits_peak", "relative")}
    chosen["smallest_n"] = None if fitting else smallest_n(setup, 3)
    chosen["break_even"] = break_even(rows[3])
    chosen["text"] = advice_text(setup, chosen)
    return chosen


def smallest_n(setup: Setup, stage: int) -> int | None:
    """The fewest GPUs with which ``stage`` fits at rest; None when the largest n allowed does not."""
    capacity = cluster_of(setup).capacity

    def fits(n: int) -> bool:
        return nbytes_of(at_rest(resized(setup, n, stage), stage)) <= capacity

    low, high = 0, int(FIELDS["n"]["max"])  # low does not fit, high does
    if not fits(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def break_even(row: dict[str, Any]) -> float | None:
    """The bandwidth per rank, bytes/s, from which a step's communication can hide behind its compute.

    What the ring sends over the time that latencies leave of the compute: with recomputation, 6N bytes under
    8NT FLOPs of 1/F seconds each, 0.75 F/T for T tokens. None when there is nothing to send, or when the
    latencies alone take longer. ``row``: of the summary.
    """
    seconds = row["compute"] - row["latency"]
    return row["wire_bytes"] / seconds if row["wire_bytes"] > 0.0 and seconds > 0.0 else None


def advice_text(setup: Setup, chosen: dict[str, Any]) -> str:
    """The advice as two or three sentences in the setup's language."""
    language, unit, stage = setup.language, setup.unit, chosen["stage"]
    gpu, capacity = GPUS[setup.gpu]["label"], size(chosen["capacity"], unit)
    rest = size(chosen["rest"], unit)
    if stage is None:
        said = [say("fit_none", language, gpu=gpu, rest=rest, capacity=capacity)]
        found = chosen["smallest_n"]
        if found is None:
            said.append(say("fit_never", language, n=FIELDS["n"]["max"]))
        else:
            said.append(say("fit_more", language, n=found))
    else:
        key = "fit_all" if stage == 0 else "fit_only" if stage == 3 else "fit_from"
        said = [say(key, language, stage=stage, gpu=gpu, capacity=capacity)]
        said.append(
            say("enough", language, stage=stage, rest=rest, price=price_text(setup, chosen["relative"]))
        )
        if not chosen["fits_peak"]:
            said.append(say("fit_peak", language, peak=size(chosen["peak"], unit)))
    said.append(say("fit_alone" if setup.n == 1 else "fit_scope", language))
    return ("" if language == "zh" else " ").join(said)


def price_text(setup: Setup, relative: float | None) -> str:
    """What a stage costs in communication."""
    if relative is None:
        return say("price_alone", setup.language)
    if trimmed(relative, 2) == "1":
        return say("price_none", setup.language)
    return say("price_less", setup.language, relative=trimmed(relative, 2))


KINDS = ("parameters", "gradients", "optimizer")
"""The three model states; what is neither parameters nor gradients nor a buffer is the optimizer's."""


def formula(setup: Setup, stage: int) -> str:
    """What the stage holds at rest, with N and n filled in: '(2N + 2N + 12N)/n = 16 × 7.5e9 / 64 = ...'.

    What is no multiple of N, a buffer, stands as what it takes.
    """
    held = [part for part in at_rest(setup, stage) if part.device == "gpu"]
    N = exponential(setup.N, 3)
    symbols, figures = [], []
    for over, letter in dict.fromkeys((part.over, "n" if part.falls else str(part.over)) for part in held):
        shares = [
            part for part in held if (part.over, part.falls) == (over, letter == "n") and part.each > 0.0
        ]
        terms = []
        for kind in KINDS:
            each = total([part.each for part in shares if kind_of(part.state) == kind])
            if each > 0.0:
                terms.append(f"{plain(each)}N")
        if not terms:
            continue
        share = f"{plain(total([part.each for part in shares]))} × {N}"
        if letter == "1":
            symbols += terms
            figures.append(share)
        else:
            joined = " + ".join(terms)
            symbols.append(f"({joined})/{letter}" if len(terms) > 1 else f"{joined}/{letter}")
            figures.append(f"{share} / {over}")
    for part in held:
        if part.each == 0.0 and part.nbytes > 0.0:
            symbols.append(say(part.state, setup.language))
            figures.append(exponential(part.nbytes, 3))
    rest = nbytes_of(held)
    values = {"symbols": " + ".join(symbols), "figures": " + ".join(figures), "nbytes": exponential(rest, 3)}
    value = in_unit(rest, setup.unit)
    text = trimmed(value, 2) if value >= 0.1 else amount(value)
    return say("formula", setup.language, size=f"{text} {setup.unit}", **values)


def kind_of(state: str) -> str:
    """Which of the three model states a state belongs to."""
    return state if state in ("parameters", "gradients") else "optimizer"


MOVED = {
    "all_gather": "parameters",
    "broadcast": "parameters",
    "reduce_scatter": "gradients",
    "all_reduce": "gradients",
    "reduce": "gradients",
}
"""What each collective moves, in the order in which a sentence names them."""


def moved(op: str, language: str) -> str:
    """A collective and what it moves."""
    return say("moved", language, op=say(op, language), kind=say(MOVED[op], language))


def movement(setup: Setup, row: dict[str, Any], step: Step | None = None) -> str:
    """What the stage of that summary row communicates in one step; ``step``: its schedule, if at hand."""
    if row["relative"] is None:
        return say("moves_alone", setup.language)
    parts = []
    spans = (step or step_of(setup, row["stage"])).spans
    collectives = collectives_of(setup, row["stage"], [span.op for span in spans])
    for name in MOVED:
        times = 0.0
        for entry in collectives:
            if entry.op == name:
                times = times + entry.elements / setup.N
        if trimmed(times, 2) != "0":  # single numbers, such as a norm, go without saying
            often = "" if trimmed(times, 2) == "1" else f"{trimmed(times, 2)} × "
            parts.append(often + moved(name, setup.language))
    said = say(
        "moves_stage",
        setup.language,
        elements=f"{trimmed(row['volume'] / setup.N, 2)}N = {count(row['volume'])}",
        what=" + ".join(parts),
        wire=size(row["wire_bytes"], setup.unit),
        relative=trimmed(row["relative"], 2),
    )
    sentences = [said]
    one_ring = row["between_bytes"] in (0.0, row["wire_bytes"])
    if not one_ring:
        sentences.append(say("moves_between", setup.language, between=size(row["between_bytes"], setup.unit)))
    each = trimmed(row["messages"] / setup.layers, 2)
    values = {"messages": row["messages"], "each": each, "latency": duration(row["latency"])}
    sentences.append(say("moves_messages", setup.language, **values))
    needed = break_even(row)
    if row["stage"] == 3 and needed is not None and one_ring:
        carried = scaled_size(cluster_of(setup).bandwidth, "GB")
        sentences.append(
            say("moves_hidden", setup.language, needed=scaled_size(needed, "GB"), carried=carried)
        )
    return ("" if setup.language == "zh" else " ").join(sentences)


def ring_of(setup: Setup, op: Op) -> Cluster:
    """The links that a collective crosses; those of replicas are a group of shards apart."""
    return cluster_of(setup, op.ranks, setup.n // op.ranks if op.stream == "replicas" else 1)


def some_stay_inside(step: Step) -> bool:
    """Whether some collectives stay inside a node and others leave it: the former are drawn thin."""
    leaves = {span.op.leaves for span in step.spans if span.op.stream != "compute"}
    return len(leaves) == 2


def rings(setup: Setup, step: Step) -> str:
    """The links of a step, each with its bandwidth: '400 GB/s over InfiniBand NDR'."""
    language = setup.language
    mixed = some_stay_inside(step)
    found: dict[tuple[int, str], str] = {}
    for op, *_ in step.spans:
        key = (op.ranks, op.stream)
        if op.stream == "compute" or key in found:
            continue
        ring = ring_of(setup, op)
        bandwidth = f"{scaled_size(ring.bandwidth, 'GB')}/s"
        text = say("ring", language, bandwidth=bandwidth, link=LINKS[ring.link]["label"])
        found[key] = say("ring_thin", language, ring=text) if mixed and not op.leaves else text
    return " \u00b7 ".join(dict.fromkeys(found.values())) or say("ring_none", language)


def explain(
    setup: Setup, *, rows: list[dict[str, Any]] | None = None, step: Step | None = None
) -> dict[str, str]:
    """The selected stage in words, in the setup's language.

    ``rows``: the summary, ``step``: the selected stage's schedule, where they are at hand.

    Keys in reading order: headline, costs, formula, moves, fits.
    """
    rows = rows or summary(setup)
    row = rows[setup.stage]
    return {
        "headline": say("headline", setup.language, stage=setup.stage, rest=size(row["rest"], setup.unit)),
        "costs": costs_text(setup, row),
        "formula": formula(setup, setup.stage),
        "moves": movement(setup, row, step),
        "fits": advice(setup, rows=rows)["text"],
    }


def costs_text(setup: Setup, row: dict[str, Any]) -> str:
    """Peak, communication and waiting in one line."""
    values = {"peak": size(row["peak"], setup.unit), "step": duration(row["step"])}
    if row["relative"] is None:
        return say("costs_alone", setup.language, **values)
    relative = trimmed(row["relative"], 2)
    return say("costs", setup.language, relative=relative, exposed=duration(row["exposed"]), **values)
