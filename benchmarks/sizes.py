"""Counts as people write them: 20M rows."""

from __future__ import annotations

import argparse

_SUFFIXES = {"k": 1_000, "M": 1_000_000, "G": 1_000_000_000}


def parse_count(text: str) -> int:
    """Turn `20M`, `250k` or `1_000` into a number.

    >>> parse_count("20M"), parse_count("1_000")
    (20000000, 1000)
    """
    suffix = _SUFFIXES.get(text[-1:], 0)
    return int(float(text[:-1]) * suffix) if suffix else int(text)


def parse_millions(text: str) -> int:
    """Turn `20M` into a number, for a command line that takes whole millions.

    Raises
    ------
    argparse.ArgumentTypeError

    Examples
    --------
    >>> parse_millions("20M")
    20000000
    """
    count = parse_count(text)
    if count <= 0 or count % 1_000_000:
        raise argparse.ArgumentTypeError(f"{text}: give whole millions, such as 20M")
    return count


def format_count(count: int) -> str:
    """The short form of a count.

    >>> format_count(20_000_000), format_count(1500)
    ('20M', '1500')
    """
    for suffix, factor in reversed(_SUFFIXES.items()):
        if count >= factor and count % factor == 0:
            return f"{count // factor}{suffix}"
    return str(count)
