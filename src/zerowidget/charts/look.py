"""How the charts look: theme, size, and room for texts. Nothing here needs Altair."""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass

from ..data import load
from ..specs import shown
from ..words import say

ENCODING = load("encoding")

SIZES = {"screen": (860.0, 13.0), "slide": (1100.0, 20.0), "paper": (320.0, 9.0)}
"""Width of the whole figure and height of its type, in pixels; 320 of them are a column of a paper."""

THEMES: dict[str, dict[str, str]] = {
    "light": {"ink": "#1f2329", "soft": "#5f6570", "faint": "#d9dce1", "band": "#f2f3f5", "ground": ""},
    "dark": {"ink": "#e6e7ea", "soft": "#a5abb5", "faint": "#3c4048", "band": "#23262c", "ground": "#17191d"},
    "print": {"ink": "#000000", "soft": "#3d4148", "faint": "#b4b8be", "band": "#eeeeee", "ground": ""},
}

PADDING = 5.0  # what Vega leaves around a picture
CHINESE = "Noto Sans CJK SC, Noto Sans SC, PingFang SC, Microsoft YaHei, sans-serif"
NO_LINE_STARTS_WITH = "\uff0c\u3002\uff1a\uff1b\uff09\u3001/)×"


@dataclass(frozen=True)
class Look:
    """Colours and measures of one chart."""

    theme: str
    size: str
    em: float  # type size, pixels
    width: float  # of everything drawn, pixels
    font: str | None  # None: the viewer's own sans-serif

    @property
    def ink(self) -> str:
        """Text."""
        return THEMES[self.theme]["ink"]

    @property
    def soft(self) -> str:
        """Secondary text, axes."""
        return THEMES[self.theme]["soft"]

    @property
    def faint(self) -> str:
        """Rules that separate."""
        return THEMES[self.theme]["faint"]

    @property
    def band(self) -> str:
        """Behind what is selected."""
        return THEMES[self.theme]["band"]

    @property
    def ground(self) -> str:
        """A ground that the chart draws itself; empty: it needs none."""
        return THEMES[self.theme]["ground"]

    @property
    def small(self) -> float:
        """Size of secondary type; no less than 18 pixels on a slide, 8 in a paper."""
        return 0.9 * self.em

    @property
    def palette(self) -> str:
        """Which of the two colours of the encoding is meant."""
        return "dark" if self.theme == "dark" else "light"

    @property
    def paper(self) -> str:
        """What everything is drawn on."""
        return self.ground or "#ffffff"

    @property
    def margin(self) -> float:
        """Ground around what is drawn; half of it is for the band behind what is selected."""
        return whole(self.em if self.ground else 0.5 * self.em)

    @property
    def between(self) -> tuple[str, float]:
        """Colour and width of the line between two segments; black on paper, where colours may be greys."""
        if self.theme == "print":
            return "#000000", 0.04 * self.em
        return self.paper, 1.5 if self.size == "slide" else 0.5 if self.size == "paper" else 1.0

    def colour(self, name: str) -> str:
        """The colour of a state, an op, or the ``limit``."""
        entry = ENCODING["states"].get(name) or ENCODING["ops"].get(name) or ENCODING[name]
        found: str = entry[self.palette]
        return found

    def tint(self, name: str) -> str:
        """A paler colour of a state, for a buffer that is there at rest too."""
        own, ground = (
            [int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in (self.colour(name), self.paper)
        )
        return "#" + "".join(f"{round(0.45 * a + 0.55 * b):02x}" for a, b in zip(own, ground, strict=True))


def look_of(theme: str, size: str, language: str) -> Look:
    """The look asked for. Raises ValueError for a theme or a size that is none."""
    check_choice("theme", theme, list(THEMES))
    check_choice("size", size, list(SIZES))
    width, em = SIZES[size]
    look = Look(theme, size, em, width - 2.0 * PADDING, CHINESE if language == "zh" else None)
    return Look(theme, size, em, look.width - 2.0 * look.margin, look.font)


def whole(x: float) -> float:
    """Rounded up to a whole pixel, as Vega does with the whole picture."""
    return float(math.ceil(x))


def check_choice(name: str, value: object, allowed: list[str]) -> None:
    """Raise ValueError, naming argument, rule and value, unless ``value`` is one of ``allowed``."""
    if not isinstance(value, str) or value not in allowed:
        rule = say("rule_choice", "en", others=", ".join(allowed[:-1]), last=allowed[-1])
        raise ValueError(say("error", "en", name=name, rule=rule, value=shown(value)))


def ink_on(colour: str) -> str:
    """Text on a colour: the better of near-black and white (WCAG contrast)."""
    parts = [int(colour[at : at + 2], 16) / 255.0 for at in (1, 3, 5)]
    r, g, b = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    luminance = 0.2126 * r + 0.7152 * g + 0.0722 * b
    return "#16181c" if (luminance + 0.05) ** 2 > 0.0625 * 1.05 else "#ffffff"


def breadth(text: str, size: float, *, bold: bool = False) -> float:
    """About how wide a text is, in pixels; rather too much, for fonts differ."""
    units = 0.0
    for letter in text:
        if unicodedata.east_asian_width(letter) in "WF":
            units += 1.0
        elif letter in "ijl.,:;'|!()[]/ftr· \u00a0-I":
            units += 0.36
        elif letter in "mwMW@%×→":
            units += 0.88
        else:
            units += 0.68 if letter.isupper() else 0.6
    return units * size * (1.08 if bold else 1.0)


def wrapped(text: str, size: float, width: float, *, bold: bool = False) -> list[str]:
    """A text in lines no wider than ``width``; Latin breaks at spaces, Chinese between characters."""
    pieces: list[str] = []
    for letter in text:
        wide = unicodedata.east_asian_width(letter) in "WF"
        glued = letter in NO_LINE_STARTS_WITH
        after = pieces[-1][-1] if pieces else " "
        starts = after == " " or (unicodedata.east_asian_width(after) in "WF" and letter != " ")
        if pieces[-1:] == ["+ "]:
            starts = wide = False  # a plus goes with what it adds
        if pieces and (glued or letter == " " or not (starts or wide)):
            pieces[-1] += letter
        else:
            pieces.append(letter)
    lines = [""]
    for piece in pieces:
        longer = lines[-1] + piece
        if lines[-1] and breadth(longer.rstrip(), size, bold=bold) > width:
            lines.append(piece)
        else:
            lines[-1] = longer
    return [line.rstrip() for line in lines]


def apart(places: list[float], gap: float, low: float, high: float) -> list[float]:
    """The places moved as little as it takes to be ``gap`` apart, between ``low`` and ``high``."""
    order = sorted(range(len(places)), key=lambda index: places[index])
    moved = list(places)
    at = low
    for index in order:
        at = moved[index] = max(moved[index], at)
        at += gap
    at = high
    for index in reversed(order):
        at = moved[index] = min(moved[index], at)
        at -= gap
    return moved


def nice_above(x: float) -> float:
    """The first of 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10 times a power of ten not below ``x``."""
    power = 10.0 ** math.floor(math.log10(x))
    for step in (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0):
        if step * power >= x:
            return step * power
    return 10.0 * power


def ticks(high: float, most: int) -> list[float]:
    """Round numbers from 0 to ``high``, ``most`` steps at most."""
    least = high / most
    power = 10.0 ** math.floor(math.log10(least))
    step = next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= least * (1 - 1e-12))
    return [round(k * step, 12) for k in range(int(high / step * (1 + 1e-12)) + 1)]
