"""Which stage to choose, and the numbers in words."""

from __future__ import annotations

from typing import Any

from .memory import at_rest, nbytes_of
from .rows import summary
from .specs import FIELDS, GPUS, Setup, cluster_of, recipe_of
from .systems import system_of
from .words import amount, count, duration, exponential, in_unit, plain, say, size, trimmed


def advice(setup: Setup, *, rows: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """The lowest stage whose model states fit the GPU at rest, and why; ``rows``: the summary, if at hand.

    Keys: ``stage`` (None when none fits), ``capacity``, ``rest``, ``peak`` (bytes, of that stage or of stage
    3), ``fits_peak``, ``relative`` (communication against plain data parallelism, None on one GPU),
    ``smallest_n`` (GPUs from which stage 3 fits; None when some stage fits already, or none ever does),
    ``text``.
    """
    rows = rows or summary(setup)
    fitting = [row for row in rows if row["fits"]]
    row = fitting[0] if fitting else rows[3]
    chosen = {"stage": row["stage"] if fitting else None, "capacity": cluster_of(setup).capacity}
    chosen |= {key: row[key] for key in ("rest", "peak", "fits_peak", "relative")}
    chosen["smallest_n"] = None if fitting else smallest_n(setup, 3)
    chosen["text"] = advice_text(setup, chosen)
    return chosen


def smallest_n(setup: Setup, stage: int) -> int | None:
    """The fewest GPUs with which ``stage`` fits at rest; None when the largest n allowed does not."""
    capacity = cluster_of(setup).capacity

    def fits(n: int) -> bool:
        return nbytes_of(at_rest(setup.but(n=n), stage)) <= capacity

    low, high = 0, int(FIELDS["n"]["max"])  # low does not fit, high does
    if not fits(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


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


def formula(setup: Setup, stage: int) -> str:
    """What the stage holds at rest, with N and n filled in: '(2N + 2N + 12N)/n = 16 × 7.5e9 / 64 = ...'."""
    recipe = recipe_of(setup)
    sharded_from = system_of(setup).SHARDED_FROM
    whole, sharded = [], []
    whole_bytes, sharded_bytes = 0.0, 0.0
    for kind in ("parameters", "gradients", "optimizer"):
        nbytes = recipe.bytes_of(kind)
        if nbytes > 0.0 and stage >= sharded_from[kind]:
            sharded.append(f"{plain(nbytes)}N")
            sharded_bytes = sharded_bytes + nbytes
        elif nbytes > 0.0:
            whole.append(f"{plain(nbytes)}N")
            whole_bytes = whole_bytes + nbytes
    N = exponential(setup.N, 3)
    symbols, figures = list(whole), []
    if whole:
        figures.append(f"{plain(whole_bytes)} × {N}")
    if sharded:
        terms = " + ".join(sharded)
        symbols.append(f"({terms})/n" if len(sharded) > 1 else f"{terms}/n")
        figures.append(f"{plain(sharded_bytes)} × {N} / {setup.n}")
    rest = nbytes_of(at_rest(setup, stage))
    values = {"symbols": " + ".join(symbols), "figures": " + ".join(figures), "nbytes": exponential(rest, 3)}
    value = in_unit(rest, setup.unit)
    text = trimmed(value, 2) if value >= 0.1 else amount(value)
    return say("formula", setup.language, size=f"{text} {setup.unit}", **values)


def movement(setup: Setup, row: dict[str, Any]) -> str:
    """What the stage of that summary row communicates in one step."""
    if row["relative"] is None:
        return say("moves_alone", setup.language)
    parts = []
    collectives = system_of(setup).collectives(setup, row["stage"])
    for name in ("all_gather", "reduce_scatter", "all_reduce"):
        times = 0
        for entry in collectives:
            if entry.op == name:
                times += entry.count // setup.layers
        if times > 0:
            kind = "parameters" if name == "all_gather" else "gradients"
            often = "" if times == 1 else f"{times} × "
            words = {"op": say(name, setup.language), "kind": say(kind, setup.language)}
            parts.append(say("moves_part", setup.language, times=often, **words))
    return say(
        "moves_stage",
        setup.language,
        elements=f"{trimmed(row['volume'] / setup.N, 2)}N = {count(row['volume'])}",
        what=" + ".join(parts),
        wire=size(row["wire_bytes"], setup.unit),
        relative=trimmed(row["relative"], 2),
    )


def explain(setup: Setup, *, rows: list[dict[str, Any]] | None = None) -> dict[str, str]:
    """The selected stage in words, in the setup's language; ``rows``: the summary, if at hand.

    Keys in reading order: headline, costs, formula, moves, fits.
    """
    rows = rows or summary(setup)
    row = rows[setup.stage]
    return {
        "headline": say("headline", setup.language, stage=setup.stage, rest=size(row["rest"], setup.unit)),
        "costs": costs_text(setup, row),
        "formula": formula(setup, setup.stage),
        "moves": movement(setup, row),
        "fits": advice(setup, rows=rows)["text"],
    }


def costs_text(setup: Setup, row: dict[str, Any]) -> str:
    """Peak, communication and waiting in one line."""
    values = {"peak": size(row["peak"], setup.unit), "step": duration(row["step"])}
    if row["relative"] is None:
        return say("costs_alone", setup.language, **values)
    relative = trimmed(row["relative"], 2)
    return say("costs", setup.language, relative=relative, exposed=duration(row["exposed"]), **values)
