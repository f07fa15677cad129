"""Rows that are not on the sky: counted, described, and held against the spec's policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hipslake.errors import BadRowsError
from hipslake.spark.histogram_tasks import SplitCount
from hipslake.specs.catalog import CatalogSpec
from hipslake.sphere.coordinates import REASONS
from hipslake.steps.split_table import SplitTable


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
            lines.append(f"{uri}, row {row}: {bad.lon}, {bad.lat} ({REASONS[bad.reason]})")
    return tuple(lines)


def check_bad_rows(spec: CatalogSpec, *, rows: int, rejected: dict[str, int], shown: Sequence[str]) -> None:
    """Hold the bad rows against the policy.

    Raises
    ------
    BadRowsError
        With counts by reason and the first examples.
    """
    bad = sum(rejected.values())
    policy = spec.bad_rows
    if bad == 0 or (policy.policy == "quarantine" and bad <= policy.max_fraction * rows):
        return
    reasons = ", ".join(f"{count} with {reason}" for reason, count in rejected.items())
    if policy.policy == "fail":
        mend = "mend them, or set bad_rows: {policy: quarantine} to keep them apart"
    else:
        mend = f"that is more than bad_rows.max_fraction = {policy.max_fraction:g} allows"
    raise BadRowsError(
        f"{bad} of {rows} rows of {spec.source.uri} have no place on the sky in columns "
        f"{spec.position.ra}, {spec.position.dec}: {reasons}; {mend}. First: " + "; ".join(shown)
    )
