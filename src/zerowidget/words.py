"""What a user reads: sentences by key and language, and numbers with their unit.

Every rounding is half away from zero on the exact value, as JavaScript's ``toFixed`` does it,
so that both sides print the same text.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal

from .data import load

WORDS = load("words")
KILO = {"GiB": 1024.0, "GB": 1000.0}
BYTES = {"GiB": ("B", "KiB", "MiB", "GiB", "TiB", "PiB"), "GB": ("B", "kB", "MB", "GB", "TB", "PB")}


def say(key: str, language: str, **values: object) -> str:
    """The sentence ``key`` in ``language``, with ``{name}`` replaced by ``values``."""
    text: str = WORDS[key][language]
    for name, value in values.items():
        text = text.replace("{" + name + "}", str(value))
    return text


def has_word(key: str) -> bool:
    """Whether there is a sentence ``key``."""
    return key in WORDS


def field_name(name: str, language: str) -> str:
    """What a field is called; a knob of a real system is called what that system calls it."""
    key = "recompute_field" if name == "recompute" else name
    return say(key, language) if has_word(key) else name


def fixed(x: float, digits: int) -> str:
    """``x`` with that many decimals: fixed(41.25, 1) -> '41.3'."""
    return format(Decimal(x).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, Context(prec=60)), "f")


def exponential(x: float, digits: int) -> str:
    """Scientific notation, trailing zeros dropped: exponential(7.5e9, 3) -> '7.5e9'."""
    sign, figures, exponent = Context(prec=digits + 1, rounding=ROUND_HALF_UP).create_decimal(x).as_tuple()
    if x == 0.0:
        return "0"
    mantissa = "".join(str(figure) for figure in figures)
    power = int(exponent) + len(mantissa) - 1
    decimals = mantissa[1:].rstrip("0")
    return ("-" if sign else "") + mantissa[0] + ("." + decimals if decimals else "") + f"e{power}"


def plain(x: float) -> str:
    """Shortest exact text: plain(12.0) -> '12', plain(2.03125) -> '2.03125'."""
    return str(int(x)) if x == int(x) else repr(x)


def trimmed(x: float, digits: int) -> str:
    """``fixed`` without trailing zeros: trimmed(1.5, 2) -> '1.5', trimmed(1.0, 2) -> '1'."""
    text = fixed(x, digits)
    return text.rstrip("0").rstrip(".") if "." in text else text


def significant(x: float) -> str:
    """Three figures, as a label wants them: 131, 14.2, 1.75."""
    return fixed(x, 0 if x >= 99.95 else 1 if x >= 9.995 else 2)


def amount(x: float) -> str:
    """A figure beside a bar, in one unit for all bars: 111.8, 1.7, 0.36, 0.004, 2.5e-7."""
    if x < 0.0005 or x >= 99999.5:
        return exponential(x, 1)
    return fixed(x, 0 if x >= 999.95 else 1 if x >= 0.995 else 2 if x >= 0.0995 else 3)


def in_unit(nbytes: float, unit: str) -> float:
    """Bytes as GiB (2**30) or GB (10**9)."""
    kilo = KILO[unit]
    return nbytes / (kilo * kilo * kilo)


def size(nbytes: float, unit: str) -> str:
    """Bytes in the unit asked for, size(1.2e11, 'GiB') -> '111.8 GiB', while that can be read."""
    value = in_unit(nbytes, unit)
    return f"{amount(value)} {unit}" if 0.0005 <= value < 99999.5 else scaled_size(nbytes, unit)


def scaled_size(nbytes: float, unit: str) -> str:
    """Bytes under the prefix that suits them, in the family of ``unit``: '447 MiB'."""
    power = 0
    while nbytes >= 0.9995 * KILO[unit] and power < 5:
        nbytes = nbytes / KILO[unit]
        power += 1
    return f"{fixed(nbytes, 0) if power == 0 else significant(nbytes)} {BYTES[unit][power]}"


def duration(seconds: float) -> str:
    """Seconds as '1.02 s', '9.62 ms' or '41.0 µs'."""
    if seconds >= 0.9995:
        return f"{significant(seconds)} s"
    if seconds >= 0.9995e-3:
        return f"{significant(seconds * 1e3)} ms"
    return f"{significant(seconds * 1e6)} µs"


def count(x: float) -> str:
    """A count in short scale, three figures: count(7.5e9) -> '7.5B'."""
    for suffix, scale in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("K", 1e3)):
        if x >= 0.9995 * scale:
            value = x / scale
            return trimmed(value, 0 if value >= 99.95 else 1 if value >= 9.995 else 2) + suffix
    return trimmed(x, 0)
