"""What a soak came to, as the part of docs/reliability.md that tells of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.soak.verdict import BY_DESIGN, Verdict
from tests.trust.records import keep_section

SECTION, TEN_NIGHTS = "make soak", "ten nights through Airflow"


def note_soak(nights: Sequence[Mapping[str, float]], verdicts: Sequence[Verdict], *, seconds: float) -> None:
    """Keep the result of a soak for the page."""
    held = sum(each.holds for each in verdicts)
    lines = [
        f"{len(nights)} nights in {seconds / 60:.0f} minutes. {held} of {len(verdicts)} measures hold.",
        "",
        "| measure | second quarter | last quarter | per 100 nights | at most | |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for each in verdicts:
        bound = "" if each.bound is None else _number(each.bound)
        told = BY_DESIGN.get(each.name) or ("" if each.holds else "**grew**")
        numbers = " | ".join(map(_number, (each.early, each.late, each.slope)))
        lines.append(f"| {each.name} | {numbers} | {bound} | {told} |")
    keep_section(SECTION, "\n".join(lines))


def note_ten_nights(nights: int, counts: Mapping[str, float], *, seconds: float) -> None:
    """Keep what nights through Airflow came to, for the page."""
    told = f"{nights} nights in {seconds / 60:.0f} minutes."
    rows = [f"| {name} | {_number(value)} |" for name, value in counts.items()]
    keep_section(TEN_NIGHTS, "\n".join([told, "", "| at the end | |", "|---|---:|", *rows]))


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
