"""Two angles in one text: degrees, or sexagesimal, with units, colons or blanks, as people write them.

A text is cut into words once, and where its first angle ends follows from them: from a comma, a sign, a unit,
or from how many numbers there are. Where it does not follow, the text is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from hipslake.errors import RegionError
from hipslake.sphere.regions.region import checked, written

AngleUnit = Literal["deg", "hour"]

_WRITTEN = str.maketrans(
    {
        **dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\ufe63\uff0d", "-"),
        **dict.fromkeys("\uff0b\ufe62", "+"),
        **dict.fromkeys("\u2032\u2019\u02b9\u00b4", "'"),
        **dict.fromkeys("\u2033\u201d\u02ba", '"'),
        **dict.fromkeys("\u00ba\u02da", "\u00b0"),
        "\u02b0": "h",
        "\u1d48": "d",
        "\u1d50": "m",
        "\u02e2": "s",
        "\uff0c": ",",
        "\uff1a": ":",
    }
)
"""Other signs for minus, plus, primes, degrees and superscript units."""
_WORD = re.compile(
    r"(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?)|(?P<sign>[-+])|(?P<stop>[,;])|(?P<colon>:)"
    r"|(?P<unit>''|[°'\"]|[a-z]+)|(?P<blank>\s+)"
)
_UNITS = {
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "deg", "degs", "degree", "degrees", "°"), "d"),
    **dict.fromkeys(("m", "min", "arcmin", "'"), "m"),
    **dict.fromkeys(("s", "sec", "arcsec", '"', "''"), "s"),
}
_PLACES = {("h", "m", "s"), ("d", "m", "s"), (":", ":", ""), ("", "", "")}


class AnglePart(NamedTuple):
    """A number of an angle, and what stands behind it: a unit, a colon, or nothing."""

    text: str
    behind: str


class WrittenAngle(NamedTuple):
    """An angle as it was written.

    Attributes
    ----------
    sign : {"", "+", "-"}
    parts : tuple of AnglePart
        One to three: whole, minutes, seconds.
    """

    sign: str
    parts: tuple[AnglePart, ...]

    @property
    def unit(self) -> str:
        """`h`, `d`, or nothing."""
        return self.parts[0].behind.strip(":")

    def value(self, unit: AngleUnit, what: str) -> float:
        """Its value in its unit.

        Raises
        ------
        RegionError
            Minutes or seconds are beyond 60, or hours beyond 24.
        """
        whole = float(self.parts[0].text)
        small = [
            checked(float(each.text), 0, 60, what=name)
            for each, name in zip(
                self.parts[1:], (f"minutes of the {what}", f"seconds of the {what}"), strict=False
            )
        ]
        found = whole + sum(each / 60**power for power, each in enumerate(small, start=1))
        if unit == "hour" and found > 24:
            hint = "" if self.unit else f"; for degrees write {self.parts[0].text}d"
            raise RegionError(f"a right ascension of {written(found)} hours is beyond 24{hint}")
        return -found if self.sign == "-" else found


def plain_signs(text: str) -> str:
    """A text in small letters, with one blank between words and plain signs for typographic ones.

    Examples
    --------
    >>> plain_signs("83°38\u2032  \u22120°30\u2032")
    "83°38' -0°30'"
    """
    return " ".join(text.translate(_WRITTEN).lower().split())


def two_angles(text: str) -> tuple[WrittenAngle, WrittenAngle] | None:
    """The two angles that a text names; None where it is something else.

    Parameters
    ----------
    text : str
        As of `plain_signs`.

    Raises
    ------
    RegionError
        They could be divided in several ways.

    Examples
    --------
    >>> first, second = two_angles("05h30m+22d15m")
    >>> first.value("hour", "longitude"), second.value("deg", "latitude")
    (5.5, 22.25)
    """
    words = _words(text)
    if words is None:
        return None
    halves = _halves(words)
    if halves is None:
        return None
    first, second = map(_angle, halves)
    return None if first is None or second is None else (first, second)


_Word = tuple[str, str]  # kind and text


def _words(text: str) -> list[_Word] | None:
    """The words of a text; None where something is none."""
    found: list[_Word] = []
    at = 0
    while at < len(text):
        match = _WORD.match(text, at)
        if match is None or match.lastgroup is None:
            return None
        kind, word = match.lastgroup, match[0]
        if kind == "unit":
            if word not in _UNITS:
                return None
            word = _UNITS[word]
        found.append((kind, word))
        at = match.end()
    return _without_idle_blanks(found)


def _without_idle_blanks(words: Sequence[_Word]) -> list[_Word]:
    """Words without blanks that part nothing: all but those between two numbers, or a unit and a number."""
    found: list[_Word] = []
    for at, (kind, word) in enumerate(words):
        if kind == "blank":
            before = words[at - 1][0] if at else ""
            behind = words[at + 1][0] if at + 1 < len(words) else ""
            if behind != "number" or before not in ("number", "unit"):
                continue
        found.append((kind, word))
    return found


def _halves(words: Sequence[_Word]) -> tuple[list[_Word], list[_Word]] | None:
    """The words of both angles; None where there are no two."""
    numbers = sum(kind == "number" for kind, _ in words)
    if numbers < 2:
        return None
    stops = [at for at, (kind, _) in enumerate(words) if kind == "stop"]
    if stops:
        return (list(words[: stops[0]]), list(words[stops[0] + 1 :])) if len(stops) == 1 else None
    signs = [at for at, (kind, _) in enumerate(words) if kind == "sign" and at]
    if signs:
        return (list(words[: signs[0]]), list(words[signs[0] :])) if len(signs) == 1 else None
    heads = [at - 1 for at, word in enumerate(words) if word in (("unit", "h"), ("unit", "d"))]
    if len(heads) == 2:
        return list(words[: heads[1]]), list(words[heads[1] :])
    blanks = [at for at, (kind, _) in enumerate(words) if kind == "blank"]
    if ("colon", ":") in words or numbers == 2:
        return (list(words[: blanks[0]]), list(words[blanks[0] :])) if len(blanks) == 1 else None
    if heads:
        return None
    if numbers == 6 and len(blanks) == 5:
        return list(words[: blanks[2]]), list(words[blanks[2] :])
    if numbers in (4, 5) and len(blanks) == numbers - 1:
        text = "".join(word for _, word in words)
        raise RegionError(
            f"{text}: where the first of two angles ends is not told; write a comma between them"
        )
    return None


def angle_of(text: str) -> WrittenAngle | None:
    """The angle that a text names; None where it is something else."""
    words = _words(text)
    return None if words is None else _angle(words)


def _angle(words: Sequence[_Word]) -> WrittenAngle | None:
    sign, rest = "", [word for word in words if word[0] != "blank"]
    if rest and rest[0][0] == "sign":
        sign, rest = rest[0][1], rest[1:]
    parts: list[AnglePart] = []
    for at, (kind, word) in enumerate(rest):
        if kind == "number":
            parts.append(AnglePart(word, ""))
        elif kind in ("unit", "colon") and at and rest[at - 1][0] == "number":
            parts[-1] = AnglePart(parts[-1].text, word)
        else:
            return None
    return WrittenAngle(sign, tuple(parts)) if _is_angle(parts) else None


def _is_angle(parts: Sequence[AnglePart]) -> bool:
    if not 1 <= len(parts) <= 3 or parts[-1].behind == ":":
        return False
    behind = [each.behind for each in parts]
    if len(parts) == 1:
        return behind[0] in ("", "h", "d")
    if any("." in each.text for each in parts[:-1]) or any("e" in each.text for each in parts):
        return False
    if max(len(each.text.partition(".")[0]) for each in parts[1:]) > 2 or len(parts[0].text) > 3:
        return False
    last_may_lack = [places[: len(parts) - 1] for places in _PLACES]
    if tuple(behind[:-1]) not in last_may_lack:
        return False
    return behind[-1] in ("", {2: "m", 3: "s"}[len(parts)]) if behind[0] in ("h", "d") else behind[-1] == ""
