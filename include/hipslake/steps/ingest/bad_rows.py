"""Rows that are not on the sky: counted, described, and held against the spec's policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hipslake.catalog.placement import NULL_OBJECT, REASONS
from hipslake.errors import BadRowsError
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.steps.ingest.histogram_tasks import SplitCount
from hipslake.steps.ingest.split_table import SplitTable


def rejected_by_reason(counts: Sequence[SplitCount]) -> dict[str, int]:
    """Rows per reason, over all splits."""
    total: Counter[int] = Counter()
    for count in counts:
        total.update(count.rejected)
    return {REASONS[code]: total[code] for code in sorted(total)}


def examples(counts: Sequence[SplitCount], table: SplitTable, most: int) -> tuple[str, ...]:
    """The first bad rows in source order: file, row (from 1, without the header), values and reason."""
    before = table.rows_in_file_before
    lines: list[str] = []
    for count in counts:
        for bad in count.examples[: most - len(lines)]:
            uri, row = table.splits[count.split].file.uri, int(before[count.split]) + bad.row + 1
            lines.append(f"{uri}, row {row}: {bad.id or f'{bad.lon}, {bad.lat}'} ({REASONS[bad.reason]})")
    return tuple(lines)


def check_bad_rows(spec: CatalogSpec, *, rows: int, rejected: dict[str, int], shown: Sequence[str]) -> None:
    """Hold the bad rows against the policy, and those of no object against theirs.

    Raises
    ------
    BadRowsError
        With counts by reason and the first examples.
    """
    ids = {reason: count for reason, count in rejected.items() if reason in REASONS[NULL_OBJECT:]}
    places = {reason: count for reason, count in rejected.items() if reason not in ids}
    policy, given = spec.bad_rows, spec.position_from
    if mend := _broken("bad_rows", "policy", policy.policy, policy.max_fraction, places, rows):
        what = f"have no place on the sky in columns {spec.position.ra}, {spec.position.dec}"
        raise BadRowsError(_message(spec, rows, places, what, mend, shown))
    if given is not None and (
        mend := _broken("position_from", "unmatched", given.unmatched, given.max_fraction, ids, rows)
    ):
        what = f"have no object of catalog {given.catalog} in column {given.column}"
        raise BadRowsError(_message(spec, rows, ids, what, mend, shown))


def _broken(
    block: str, key: str, policy: str, max_fraction: float, rejected: dict[str, int], rows: int
) -> str | None:
    """How to mend it, if a policy, `key` in a block of the spec, does not allow the rejected rows."""
    bad = sum(rejected.values())
    if bad == 0 or (policy == "quarantine" and bad <= max_fraction * rows):
        return None
    if policy == "fail":
        return f"mend them, or set {block}.{key}: quarantine to keep them apart"
    return f"that is more than {block}.max_fraction = {max_fraction:g} allows"


def _message(
    spec: CatalogSpec, rows: int, rejected: dict[str, int], what: str, mend: str, shown: Sequence[str]
) -> str:
    reasons = ", ".join(f"{count} with {reason}" for reason, count in rejected.items())
    return (
        f"{sum(rejected.values())} of {rows} rows of {spec.source.uri} {what}: {reasons}; {mend}. First: "
        + "; ".join(shown)
    )
