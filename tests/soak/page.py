"""What a soak came to, as rows of the tables in docs/reliability.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.soak.verdict import BY_DESIGN, Verdict
from tests.trust.records import SOAK, TEN_NIGHTS, note


def note_soak(nights: int, verdicts: Sequence[Verdict], *, seconds: float) -> None:
    """Keep the result of a soak for the page."""
    grew = sum(not each.holds for each in verdicts)
    told = f"{grew} of {len(verdicts)} measures grew" if grew else "nothing grew"
    empty: dict[str, object] = dict.fromkeys(SOAK.columns, "")
    note(SOAK, "nights", **empty | {"last quarter": nights})
    note(SOAK, "minutes", **empty | {"last quarter": _number(seconds / 60), "": told})
    for each in verdicts:
        numbers = {"second quarter": each.early, "last quarter": each.late, "per 100 nights": each.slope}
        cells = {name: _number(value) for name, value in numbers.items()}
        bound = "" if each.bound is None else _number(each.bound)
        note(SOAK, each.name, **cells | {"at most": bound, "": _judgement(each)})


def note_ten_nights(counts: Mapping[str, float]) -> None:
    """Keep what ten nights through Airflow came to, for the page."""
    for name, value in counts.items():
        note(TEN_NIGHTS, name, **{"at the end": _number(value)})


def _judgement(verdict: Verdict) -> str:
    if verdict.bound is None:
        return BY_DESIGN[verdict.name]
    return "holds" if verdict.holds else "**grew**"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
