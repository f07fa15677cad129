"""Mode upsert: what the records of a run do to a version, found before any row is touched.

The records are held against those of the version, range by range of their keys. What comes of it lies in the
run folder: lists of the rows that go, of those that come late, and of those that return.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.metadata import CatalogMetadata, Increment, KeyChanges, RecordFile
from hipslake.catalog.metadata.key_records import described_run
from hipslake.catalog.records.record_intervals import settle_intervals, starts_of
from hipslake.catalog.records.record_lookup import lookup
from hipslake.catalog.records.record_order import RecordOrder, ranks_by_start
from hipslake.catalog.records.record_rows import DELETE_COLUMN, key_of, records_schema
from hipslake.catalog.records.run_files import read_span, run_folder, write_run_files
from hipslake.catalog.records.winners import settle, winning
from hipslake.catalog.row_sets import ORDINAL_SHIFT
from hipslake.catalog.schema import ROW_COLUMN, schema_of_text, schema_text
from hipslake.errors import InputError
from hipslake.specs.upsert_spec import MissingDeletes
from hipslake.steps.append.append_run import AppendRun
from hipslake.steps.append.request import attempt_path
from hipslake.steps.append.settled_night import SettledNight
from hipslake.steps.append.state import Attempt
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest.night_records import NightRecords
from hipslake.steps.ingest.split_table import SplitTable
from hipslake.steps.ingest.superseded_rows import write_rows
from hipslake.steps.row_lists import EndList, RowList
from hipslake.steps.run import RunFolder
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog

_LISTS = ("goes", "beaten", "late", "returns")
_ENDS = ("closes", "closed")  # with intervals of validity
_COUNTS = ("inserted", "updated", "deleted", "outdated", "missing_deletes")
_RESULT = pa.schema(
    [(name, pa.int64()) for name in ("range", *_LISTS, *_ENDS, *_COUNTS)]
    + [("files", pa.string()), ("missing", pa.string())]
)
_List = TypeVar("_List", bound=RowList)
_EXAMPLES = 3


def settle_night(
    run: AppendRun, base: CatalogMetadata | None, attempt: Attempt, schema: pa.Schema
) -> SettledNight:
    """Find what the records of a run do to a version; files of its records are written.

    Parameters
    ----------
    run : AppendRun
    base : CatalogMetadata or None
        The version; None if there is none yet.
    attempt : Attempt
        The write that the files go into.
    schema : pyarrow.Schema
        The source schema of the catalog with the increment.

    Raises
    ------
    InputError
        Two records of a key are of one order; or one deletes what is not there, and the spec does not let
        that pass.
    """
    spec, engine = run.frozen.spec, run.engine
    night = NightRecords.of(run.folder)
    records = records_schema(schema, spec.key, spec.order_by)
    increments = base.all_increments(run.catalog) if base else ()
    named = {each.ordinal: each.key or "" for each in increments} | {attempt.ordinal: run.key}
    task = SettleTask(
        run_uri=run.folder.uri,
        write_id=attempt.write_id,
        ordinal=attempt.ordinal,
        version=attempt.version,
        records=schema_text(records),
        order=_order(run, base, attempt, named),
        nights={ordinal: f"night {key}" for ordinal, key in named.items()},
        starts=None if spec.validity is None else starts_of(named),
    )
    with engine.progress("settle"):
        found = engine.run(task, tasks=len(night.ranges.records), result=_RESULT).sort_by("range")
    sums = {name: pc.sum(found[name]).as_py() or 0 for name in _COUNTS}
    if sums["missing_deletes"] and spec.missing_deletes is MissingDeletes.FAIL:
        shown = next(text for text in found["missing"].to_pylist() if text)
        raise InputError(
            f"{sums['missing_deletes']} records delete rows that are not there, such as {shown}; nothing "
            "is changed. Mend the files, or set missing_deletes: count to let them pass"
        )
    files = [
        RecordFile.model_validate(each) for text in found["files"].to_pylist() for each in json.loads(text)
    ]
    made = described_run(run.catalog, attempt.write_id, "records", files, [attempt.ordinal])

    def listed(kind: type[_List], name: str) -> _List:
        counts = zip(found["range"].to_pylist(), found[name].to_pylist(), strict=True)
        paths = tuple(_path(attempt.write_id, name, number) for number, count in counts if count)
        return kind(folder=run.folder.uri, paths=paths, count=pc.sum(found[name]).as_py() or 0)

    changes = KeyChanges(run=made, deletes=run.counted.delete_records, **sums)
    stored = base.key_records.superseded if base is not None and base.key_records is not None else ()
    settled = SettledNight(
        **{name: listed(RowList, name) for name in _LISTS},
        **{name: listed(EndList, name) for name in _ENDS},
        changes=changes,
        stored=stored,
    )
    settled.store(run.folder, attempt.write_id)
    return settled


class _Loaded(NamedTuple):
    records: NightRecords
    splits: SplitTable
    catalog: Storage
    base: CatalogMetadata | None
    replaced: Increment | None


@dataclass(frozen=True)
class SettleTask:
    """Holds the records of a range of keys against those of a version; small, so that it travels.

    Attributes
    ----------
    run_uri, write_id : str
    ordinal : int
        Of the increment.
    version : int or None
        The version; None if there is none yet.
    records : str
        The schema of records, as text.
    order : RecordOrder
    nights : dict of int to str
        What increments are called in messages.
    starts : dict of int to datetime, or None
        With intervals of validity: the start of each increment's.
    """

    run_uri: str
    write_id: str
    ordinal: int
    version: int | None
    records: str
    order: RecordOrder
    nights: Mapping[int, str]
    starts: Mapping[int, datetime] | None

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        """Settle a range; leave the lists of its rows, and the files of its records."""
        at = _load(self.run_uri, self.write_id, self.version)
        schema = schema_of_text(self.records)
        by = key_of(schema)
        night = at.records.of_range(number, schema, at.splits, self.ordinal)
        standing = schema.empty_table()
        if at.base is not None and at.base.key_records is not None:
            keys = [night.select(by.names)]
            if at.replaced is not None and at.replaced.changes is not None:
                span = at.records.key_ranges(by).span(number)
                keys += [
                    rows.select(by.names)
                    for rows in read_span(at.catalog, [at.replaced.changes.run], schema, by, span)
                ]
            standing = lookup(at.catalog, at.base.key_records.runs, schema, pa.concat_tables(keys))
        settled = settle(
            standing,
            night,
            ordinal=self.ordinal,
            order=self.order,
            nights=self.nights,
        )
        lists = {name: getattr(settled, name) for name in _LISTS}
        if self.starts is not None:
            stays = settle_intervals(
                standing, night, ordinal=self.ordinal, ranks=self.order.ranks, starts=self.starts
            )
            lists = stays._asdict()
        for name, rows in lists.items():
            if rows.num_rows:
                write_rows(at.records.folder, _path(self.write_id, name, number), rows)
        folder = run_folder(self.write_id, "records")
        files = write_run_files(at.catalog, folder, number, night, by)
        row = {name: lists[name].num_rows if name in lists else 0 for name in (*_LISTS, *_ENDS)}
        row |= {name: getattr(settled, name) for name in _COUNTS}
        missing = ""
        if settled.missing_deletes:
            missing = self._missing(standing, night)
        told = json.dumps([file.model_dump(mode="json") for file in files])
        yield pa.RecordBatch.from_pylist(
            [{**row, "range": number, "files": told, "missing": missing}], schema=_RESULT
        )

    def _missing(self, standing: pa.Table, night: pa.Table) -> str:
        """Some keys of the night's deletes that have no row without it, as text."""
        kept = standing.filter(
            pc.not_equal(pc.shift_right(standing[ROW_COLUMN], ORDINAL_SHIFT), self.ordinal)
        )
        there = winning(kept, self.order)
        there = there.filter(pc.invert(there[DELETE_COLUMN]))
        deletes = night.filter(night[DELETE_COLUMN])
        by = key_of(night.schema)
        given, standing_keys = by.ranks(deletes.select(by.names), there.select(by.names))
        missing = deletes.filter(pa.array(~np.isin(given, standing_keys))).slice(0, _EXAMPLES)
        keys = missing.select(by.names).to_pylist()
        return "; ".join(", ".join(f"{name} {value!r}" for name, value in key.items()) for key in keys)


@lru_cache(maxsize=4)
def _load(run_uri: str, write_id: str, version: int | None) -> _Loaded:
    folder = RunFolder(run_uri)
    frozen = FrozenRun.of(folder)
    catalog = Storage.at(frozen.catalog_uri)
    base = None if version is None else CatalogMetadata.from_json(VersionLog(catalog).read(version))
    replaced = base.increment(frozen.start.isoformat(), catalog) if base else None
    splits = SplitTable.read(folder.storage, RunFolder.SPLITS)
    return _Loaded(NightRecords.of(folder), splits, catalog, base, replaced)


def _order(
    run: AppendRun, base: CatalogMetadata | None, attempt: Attempt, named: Mapping[int, str]
) -> RecordOrder:
    """The order of the records of a version together with those of a run."""
    standing = RecordOrder() if base is None else RecordOrder.of(base, ())
    own = run.reassignment(attempt.write_id, attempt.ordinal)
    reassignments = {**standing.reassignments, **({} if own is None else {attempt.ordinal: own})}
    return replace(standing, ranks=ranks_by_start(named), reassignments=reassignments)


def _path(write_id: str, name: str, number: int) -> str:
    return attempt_path(write_id, f"rows/{name}-{number:06d}.arrow")
