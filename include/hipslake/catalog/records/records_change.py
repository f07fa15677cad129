"""What a write changes of the key records of a version; applied to whatever version is the newest. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hipslake.catalog.metadata import KeyRecords, RecordRun
from hipslake.catalog.metadata.key_records import ranges_of
from hipslake.specs.upsert_spec import Validity


@dataclass(frozen=True)
class MergedRuns:
    """Runs that became one.

    Attributes
    ----------
    inputs : frozenset of str
        The files by which they are known: see `RecordRun.name`.
    run : RecordRun
        In their place; its ordinals are those that counted in them when it was written.
    """

    inputs: frozenset[str]
    run: RecordRun

    def applied(self, runs: Sequence[RecordRun]) -> tuple[RecordRun, ...]:
        """Runs with this one in the place of its inputs.

        They stay as they are where others have merged them, or entries count again that this one lacks, as a
        version before was brought back.
        """
        mine = [run for run in runs if run.name in self.inputs]
        counting = np.unique(np.concatenate([np.empty(0, np.int64), *(run.counting for run in mine)]))
        if len(mine) != len(self.inputs) or not np.isin(counting, self.run.counting).all():
            return tuple(runs)
        others = [run for run in runs if run.name not in self.inputs]
        if not len(counting):
            return tuple(others)
        return (*others, self.run.model_copy(update={"ordinals": ranges_of(counting)}))


class MergedRecords(NamedTuple):
    """Runs that were merged, of records and of superseded rows."""

    records: tuple[MergedRuns, ...] = ()
    superseded: tuple[MergedRuns, ...] = ()

    def applied(self, base: KeyRecords | None) -> KeyRecords | None:
        """The key records of the version that comes after another, by merging alone."""
        if base is None:
            return None
        runs, superseded = base.runs, base.superseded
        for merged in self.records:
            runs = merged.applied(runs)
        for merged in self.superseded:
            superseded = merged.applied(superseded)
        return base.model_copy(update={"runs": runs, "superseded": superseded})


@dataclass(frozen=True)
class RecordsChange:
    """What a night changes.

    Attributes
    ----------
    ordinal : int
        Of the night.
    run : RecordRun or None
        Its records; None if it brought none.
    superseded : RecordRun or None
        Rows that are superseded since it came; None if there are none.
    merged : tuple of MergedRuns
        Of records.
    merged_superseded : tuple of MergedRuns
        Of superseded rows.
    """

    ordinal: int
    run: RecordRun | None
    superseded: RecordRun | None = None
    merged: tuple[MergedRuns, ...] = ()
    merged_superseded: tuple[MergedRuns, ...] = ()

    def applied(
        self,
        base: KeyRecords | None,
        *,
        key: tuple[str, ...],
        order_by: str | None,
        validity: Validity | None = None,
        rows_superseded: int,
    ) -> KeyRecords:
        """The key records of the version that comes after another.

        Records of the night's ordinal that the other version has are of a run that the night replaces.

        Parameters
        ----------
        base : KeyRecords or None
            Of the version before; None if it has none.
        key : tuple of str
        order_by : str or None
        validity : Validity, optional
        rows_superseded : int
            Rows of all increments of the version that are in no leaf.
        """
        records = KeyRecords(
            key=key,
            order_by=order_by,
            validity=validity,
            runs=_with(base.runs if base else (), self.ordinal, self.run),
            superseded=_with(base.superseded if base else (), self.ordinal, self.superseded),
            rows_superseded=rows_superseded,
        )
        after = MergedRecords(self.merged, self.merged_superseded).applied(records)
        assert after is not None
        return after


def _with(runs: Sequence[RecordRun], ordinal: int, run: RecordRun | None) -> tuple[RecordRun, ...]:
    """Runs in which an ordinal counts no more, and a new one, which has a file."""
    left = [without for each in runs if (without := each.without(ordinal)) is not None]
    return (*left, run) if run is not None and run.name is not None else tuple(left)
