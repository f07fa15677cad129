"""Bytes, texts and documents, spoilt at random: what wears, faulty writers and ill will make of them."""

from __future__ import annotations

import copy
import re
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

NUMBERS = (
    *("0", "-1", "1", "7", "29", "30", "63", "64", "255", "65536", "2147483647", "2147483648", "4294967296"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775809", "18446744073709551616"),
    *("9" * 30, "9" * 400, "9" * 5000, "-0", "0.5", "1e308", "1e309", "-1e400", "nan", "inf", "-inf", "0x1F"),
    *("1_000", "1e-400", "00012", "+5", "1.", ".5", "1e", "--1", "0o17", "0b1", "12:30:45", "2026-13-41"),
)
TEXTS = (
    *(
        "",
        " ",
        "\t",
        "\n",
        "\r",
        "\x00",
        "\x1b[31m",
        "\x7f",
        "\u0085",
        "\u2028",
        "\ufeff",
        "\ufffe",
        "\u202e",
    ),
    *(
        "null",
        "~",
        "true",
        "yes",
        "NaN",
        "None",
        "''",
        '"',
        "'",
        "`",
        "\\",
        "\\N",
        "*",
        "**",
        "?",
        "[",
        "]",
        "{",
    ),
    *(
        "../..",
        "../../etc/passwd",
        "/etc/passwd",
        "/dev/zero",
        "/proc/self/mem",
        "~/.ssh/id_rsa",
        "a/../../b",
    ),
    *("file:///etc/passwd", "..%2f..%2f", "C:\\x", "\\\\host\\x", "a\x00b", "${HOME}", "${}", "${", "$(id)"),
    *(
        "{{ ds }}",
        "{% raw %}",
        "{{ 7*7 }}",
        "{{ night }}",
        "{{ start:%Y }}",
        "{{ end:%s%n%t }}",
        "%s%s%n",
        "#{1}",
    ),
    *(
        "--conf",
        "-rf",
        "; rm -rf /",
        "' or 1=1 --",
        "<script>alert(1)</script>",
        "&amp;",
        "]]>",
        "<!--",
        "\ud800",
    ),
    *(
        "é",
        "名前",
        "🔭",
        "e\u0301" * 3,
        "ﬁ",
        "İ",
        "ß",
        "A" * 300,
        "a" * 70_000,
        "(" * 200,
        "[" * 3000,
        "- " * 500,
    ),
)
PLAIN: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400),
    *(0.5, -0.0, 1e308, 1e-320, float("nan"), float("inf"), -float("inf")),
    *([], {}, [[]], {"": ""}, [None], ["a", "a"], [1, "1", 1.0], {"a": {"b": {"c": [1]}}}),
)
_RUN = re.compile(rb"[+-]?\d+(?:\.\d+)?")
_WORD = re.compile(r"[+-]?\d+(?:\.\d+)?|\w+|[^\w\s]")


def spoilt(random: Random, data: bytes, others: Sequence[bytes] = (), most: int = 6) -> bytes:
    """Bytes with some places changed.

    Parameters
    ----------
    random : Random
    data : bytes
    others : sequence of bytes
        What pieces may be taken from.
    most : int
        Changes, at the most.
    """
    for _ in range(random.randint(1, most)):
        data = random.choice(_CHANGES)(random, data, others)
    return data


def respelt(random: Random, text: str, words: Sequence[str] = (), most: int = 4) -> str:
    """A text with some words replaced, doubled, moved or dropped; `words` are those of its language."""
    for _ in range(random.randint(1, most)):
        found = list(_WORD.finditer(text))
        if not found or random.random() < 0.1:
            at = random.randint(0, len(text))
            text = text[:at] + hostile_text(random, words) + text[at:]
            continue
        match, other = random.choice(found), random.choice(found)
        put = random.choice(
            (
                hostile_text(random, words),
                random.choice(NUMBERS),
                "",
                match[0] * 2,
                other[0],
                match[0].upper(),
            )
        )
        text = text[: match.start()] + put + text[match.end() :]
    return text


def hostile_text(random: Random, words: Sequence[str] = ()) -> str:
    """A text that nobody expects, or a word of a language where it is not expected."""
    if words and random.random() < 0.6:
        return random.choice(words)
    return random.choice(TEXTS)


def reshaped(random: Random, document: Any, words: Sequence[str] = (), most: int = 3) -> Any:
    """A document of plain values with some of them replaced, dropped, doubled, renamed or nested."""
    document = copy.deepcopy(document)
    for _ in range(random.randint(1, most)):
        places = list(_places(document))
        if not places:
            return hostile_value(random, words)
        holder, key = random.choice(places)
        match random.randrange(7):
            case 0 | 1 | 2:
                holder[key] = hostile_value(random, words)
            case 3:
                del holder[key]
            case 4 if isinstance(holder, dict):
                holder[hostile_text(random, words)] = holder.pop(key)
            case 4:
                holder.append(copy.deepcopy(holder[key]))
            case 5:
                other, at = random.choice(places)
                holder[key] = copy.deepcopy(other[at]) if at in _keys(other) else None
            case _:
                holder[key] = [holder[key]] if random.random() < 0.5 else {"a": holder[key]}
    return document


def hostile_value(random: Random, words: Sequence[str] = ()) -> Any:
    """A value of any type: a number, a text, nothing, or something nested."""
    match random.randrange(5):
        case 0:
            return hostile_text(random, words)
        case 1:
            return random.choice(NUMBERS)
        case 2:
            return nested(random, random.choice((3, 30, 300)))
        case _:
            return copy.deepcopy(random.choice(PLAIN))


def nested(random: Random, depth: int) -> Any:
    """Lists and mappings in one another."""
    value: Any = 1
    for _ in range(depth):
        value = [value] if random.random() < 0.5 else {"a": value}
    return value


def _places(document: Any) -> list[tuple[Any, Any]]:
    found, todo = [], [document]
    while todo:
        holder = todo.pop()
        for key in _keys(holder):
            found.append((holder, key))
            todo.append(holder[key])
    return found


def _keys(holder: Any) -> list[Any]:
    if isinstance(holder, dict):
        return list(holder)
    return list(range(len(holder))) if isinstance(holder, list) else []


def _flip(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    if not data:
        return b"\x00"
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]


def _byte(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    at = random.randint(0, len(data))
    return data[:at] + bytes([random.choice((0, 1, 10, 13, 32, 34, 0x7F, 0x80, 0xFF))]) + data[at + 1 :]


def _cut(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start, stop = sorted(random.randint(0, len(data)) for _ in range(2))
    return data[:start] + data[stop:] if random.random() < 0.7 else data[:start]


def _twice(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start = random.randint(0, len(data))
    stop = min(len(data), start + random.choice((1, 4, 80, 2880, 100_000)))
    at = random.randint(0, len(data))
    return data[:at] + data[start:stop] * random.choice((1, 1, 2, 20)) + data[at:]


def _noise(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    at = random.randint(0, len(data))
    return data[:at] + random.randbytes(random.choice((1, 2, 8, 80))) + data[at:]


def _integer(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Put a number of 2, 4 or 8 bytes over what stands there: lengths and offsets are such."""
    form = random.choice("hiq")
    bits = 8 * struct.calcsize(form)
    value = random.choice((0, 1, -1, 1 << (bits - 1) - 1, -(1 << (bits - 1)), (1 << (bits - 1)) - 1, 1000))
    number = struct.pack(random.choice("<>") + form, value)
    at = random.randint(0, max(0, len(data) - len(number)))
    return data[:at] + number + data[at + len(number) :]


def _figure(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Put another number in the place of one that is written out."""
    found = list(_RUN.finditer(data))
    if not found:
        return data
    match = random.choice(found)
    return data[: match.start()] + random.choice(NUMBERS).encode() + data[match.end() :]


def _word(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    at = random.randint(0, len(data))
    return data[:at] + random.choice(TEXTS).encode("utf-8", "surrogatepass") + data[at:]


def _splice(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    if not others:
        return data
    other = random.choice(others)
    return data[: random.randint(0, len(data))] + other[random.randint(0, len(other)) :]


_CHANGES: tuple[Callable[[Random, bytes, Sequence[bytes]], bytes], ...] = (
    *(_flip, _flip, _flip, _byte, _byte, _cut, _twice, _noise),
    *(_integer, _integer, _figure, _figure, _word, _splice),
)
