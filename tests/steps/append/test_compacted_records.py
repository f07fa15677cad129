"""A compaction merges runs of key records too, with leaves or alone; a vacuum then takes what they were."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hipslake.catalog.committing import commit_next
from hipslake.catalog.metadata import CatalogMetadata, KeyRecords, RecordRun
from hipslake.catalog.metadata.key_records import described_run
from hipslake.catalog.records.record_lookup import BY_ROW, lookup, lookup_rows
from hipslake.catalog.records.record_rows import as_records, key_of, records_schema
from hipslake.catalog.records.run_files import run_folder, write_run_files
from hipslake.catalog.records.run_merging import FAN_IN
from hipslake.catalog.selection import joined_schema
from hipslake.catalog.upkeep.catalog_vacuum import vacuum_catalog
from hipslake.specs.vacuum_spec import Retention
from hipslake.storage.folder import Storage
from hipslake.versions.version_write import writing

from tests.steps.nights import Survey

NIGHTS = FAN_IN + 1
ROWS = 30


def with_records(storage: Storage, base: CatalogMetadata) -> tuple[CatalogMetadata, pa.Table, pa.Table]:
    """The next version of a catalog: a run of records and one of superseded rows for each of some nights."""
    schema, rows = records_schema(joined_schema(base), ["id"], None), joined_schema(base)
    row = ((np.arange(NIGHTS) << 40)[:, None] + np.arange(ROWS)).ravel()
    ids = pa.table({"id": (row * 7 % 1009)})
    records = as_records(ids, schema, None, row=row, h29=row % 997, delete=row % 5 == 0)
    whole = {name: pa.nulls(len(row), rows.field(name).type) for name in rows.names}
    whole |= {"id": ids["id"], "_healpix_29": pa.array(row % 997), "_row": pa.array(row)}
    superseded = pa.table([whole[name] for name in rows.names], schema=rows)
    with writing(storage) as write:
        runs: dict[str, list[RecordRun]] = {"records": [], "superseded": []}
        for night in range(NIGHTS):
            for name, table, by in (("records", records, key_of(schema)), ("superseded", superseded, BY_ROW)):
                part, folder = table.slice(ROWS * night, ROWS), run_folder(write.id, f"{name}_{night}")
                files = write_run_files(storage, folder, 0, part, by)
                runs[name].append(described_run(storage, write.id, f"{name}_{night}", files, [night]))
        key_records = KeyRecords(
            key=("id",), runs=tuple(runs["records"]), superseded=tuple(runs["superseded"])
        )
        committed = commit_next(
            storage, write.heartbeat, lambda: base.followed_by(write.id, key_records=key_records)
        )
    return committed, records, superseded


@pytest.mark.parametrize("files", [1, 2])
def test_runs_are_merged_in_the_commit_of_a_compaction(tmp_path: Path, files: int) -> None:
    survey = Survey(tmp_path, more="append: add_file")
    for night in range(files):
        survey.night(night, rows=100)
    storage = Storage.at(survey.root)
    before, records, superseded = with_records(storage, survey.catalog.metadata)
    report = survey.compact()
    assert (report.version, report.leaves > 0) == (before.version + 1, files > 1)
    after = survey.catalog.metadata
    assert before.key_records is not None
    assert after.key_records is not None
    assert [len(before.key_records.runs), len(before.key_records.superseded)] == [NIGHTS, NIGHTS]
    assert [run.ordinals for run in after.key_records.runs] == [f"0-{NIGHTS - 1}"]
    assert [run.ordinals for run in after.key_records.superseded] == [f"0-{NIGHTS - 1}"]
    found = lookup(storage, after.key_records.runs, records.schema, records.select(["id"]))
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, records.to_pylist()))
    rows = lookup_rows(
        storage, after.key_records.superseded, superseded.schema, superseded["_row"].to_numpy()
    )
    assert rows.equals(superseded)
    assert survey.compact().version is None

    tomorrow = datetime.now(UTC) + timedelta(days=1)
    vacuum_catalog(storage, Retention(keep_versions=1, keep_days=0), now=tomorrow, dry_run=False)
    left = [entry.path for entry in storage.list(recursive=True) if "/_records/" in entry.path]
    expected = [file.path for run in after.key_records.all_runs for file in run.listed(storage)]
    assert sorted(left) == sorted(expected)
    assert len(left) == 2
