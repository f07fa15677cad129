"""The outcome of the benchmark of living catalogs, as a page."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

from benchmarks.living_rows import NIGHT_ROWS
from benchmarks.living_runs import VIEW
from benchmarks.machine import described_in_a_line

BARS = {"files opened": 1.2, "bytes read": 1.2, "bytes written": 1.2, "seconds": 1.3}
OF_FULL, FULL_AT = 0.1, 40
"""The greatest share of a full rebuild, and the millions of rows from which on it is held."""
TITLES = {
    "stars": "The night",
    "match": "The cross-match that follows",
    "index": "The index of keys that follows",
    "sources": "A night of sources, which lie where their objects do",
    "light_curves": "The light curves that follow",
    "scattered": "The night, with keys from all over the catalog",
}
_TOLD = {
    "stars": f"{NIGHT_ROWS:,} records of mode upsert: 35,000 rows change in place, 5,000 move, 5,000 are new "
    "and 5,000 are deleted. Their keys are near each other, as are the rows.",
    "match": "Of the catalog with another of as many rows, within 2 arcseconds.",
    "index": "Of the keys of the catalog, in the order of keys.",
    "sources": f"{NIGHT_ROWS:,} records in the same shares; what moves goes to another object. The index "
    "of the objects says where they lie.",
    "light_curves": "Of 100,000 objects per million sources: a list for each.",
    "scattered": "The same rows, with keys that say nothing of where they lie: 50,000 lookups all over the "
    "key records. How many of their row groups hold one of the keys grows with the catalog, so there is no "
    "bar.",
}
_NO_BAR = ("scattered",)
_QUIET = 0.5  # the load of a machine that does nothing else, at most
_TOGETHER = ("stars", "match", "index", "sources", "light_curves")


def page(
    sizes: list[int], found: list[dict[str, Any]], nights: int, day: date, load: float
) -> tuple[str, bool]:
    """The outcome as Markdown, and whether every bar was kept.

    Parameters
    ----------
    sizes : list of int
        Millions of rows, ascending.
    found : list of dict
        What was measured at each.
    nights : int
        Of which the median is told.
    day : date
    load : float
        Of the machine before the run: processes that wanted to run, about.
    """
    names = [f"{size}M rows" for size in sizes]
    lines = [
        "# Living catalogs",
        "",
        f"{day}, {described_in_a_line()}.",
        "",
        f"Nights of {NIGHT_ROWS:,} records come to catalogs of {', '.join(names)}, as dense, and what",
        "is made of them follows. All nights see one field, of an eighth of the area of a million rows. Each",
        f"run is a process of its own, from its first step on, without Spark. Median of {nights} nights;",
        "files of one more. Made by `make bench-living`.",
        "",
        "The step `view` names all files of a version for HATS readers, and writes what the format asks to",
        "list of all leaves: its bytes grow with their number. It stands in lines of its own, and of these",
        "the files that it opens have a bar.",
    ]
    if load > _QUIET:
        lines += [
            "",
            f"Other programs ran on the machine, a load of {load:.0f}: seconds are to be measured again when",
            "it is quiet. Files and bytes do not depend on it.",
        ]
    passed = True
    for name in [name for name in TITLES if name in found[0]["weighed"]]:
        lines += ["", f"## {TITLES[name]}", "", _TOLD[name], ""]
        lines.append(_head(["", *names, "ratio", "wanted", ""]))
        rows, kept = _costs([each["weighed"][name] for each in found], bars=name not in _NO_BAR)
        lines += rows
        passed &= kept
        if all("leaves_written" in each["report"][name] for each in found):
            told = [each["report"][name] for each in found]
            parts = [f"{each['leaves_written']} of {sum(_leaves(each))}" for each in told]
            lines.append(_row(["leaves written", *parts, "", "", ""]))
            lines += [
                f"\nAt {size} all rows were joined: {each['full_because']}."
                for size, each in zip(names, told, strict=True)
                if each["full_because"]
            ]
    rows, kept = _full(sizes, found)
    lines += ["", "## All of it, and made anew", "", _head(["seconds", *names, "wanted", ""]), *rows, ""]
    equal = all(all(each["equal"].values()) for each in found)
    lines.append(
        "Leaves of the match and of the light curves, and files of the index, are the same made anew, byte "
        "for byte, and the rows of the catalogs those that numpy says, by SHA-256."
        if equal
        else f"NOT EQUAL: {[each['equal'] for each in found]}"
    )
    return "\n".join(lines), passed and kept and equal


def _costs(weighed: list[dict[str, dict[str, float]]], *, bars: bool) -> tuple[list[str], bool]:
    """The lines of one product: without the view, and of the view."""
    lines, kept = [], True
    for part, label in (("", ""), (VIEW, f"{VIEW}: ")):
        for name, bar in BARS.items():
            values = [each[part][name] for each in weighed]
            ratio = values[-1] / max(values[0], 1e-9)
            held = bars and (not part or name == "files opened")
            kept &= ratio < bar or not held
            verdict = ("pass" if ratio < bar else "FAIL") if held else ""
            shown = [f"{value:,.4g}" if name != "files opened" else f"{value:,.0f}" for value in values]
            lines.append(_row([label + name, *shown, f"{ratio:.2f}", f"< {bar}" if held else "", verdict]))
    return lines, kept


def _full(sizes: list[int], found: list[dict[str, Any]]) -> tuple[list[str], bool]:
    """The lines of full rebuilds."""
    lines = []
    for name in _TOGETHER:
        shown = [f"{_seconds(each, name):,.1f} of {each['full seconds'][name]:,.1f}" for each in found]
        lines.append(_row([TITLES[name].lower(), *shown, "", ""]))
    together = [_sum(each, _seconds) for each in found]
    full = [_sum(each, lambda one, name: one["full seconds"][name]) for each in found]
    shares = [mine / whole for mine, whole in zip(together, full, strict=True)]
    lines.append(_row(["together, share of the full rebuild", *[f"{share:.3f}" for share in shares], "", ""]))
    if sizes[-1] < FULL_AT:
        return lines, True
    held = shares[-1] <= OF_FULL
    lines[-1] = lines[-1].removesuffix("|  |  |") + f"| <= {OF_FULL} | {'pass' if held else 'FAIL'} |"
    return lines, held


def _seconds(found: dict[str, Any], name: str) -> float:
    parts: dict[str, dict[str, float]] = found["weighed"][name]
    return sum(part["seconds"] for part in parts.values())


def _sum(found: dict[str, Any], what: Callable[[dict[str, Any], str], float]) -> float:
    return sum(what(found, name) for name in _TOGETHER)


def _leaves(report: dict[str, Any]) -> tuple[int, int]:
    return report["leaves_written"], report["leaves_kept"]


def _head(names: list[str]) -> str:
    return f"| {' | '.join(names)} |\n|---|{'---:|' * (len(names) - 2)}---|"


def _row(values: list[str]) -> str:
    return f"| {' | '.join(values)} |"
