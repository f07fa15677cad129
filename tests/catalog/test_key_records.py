"""What metadata.json says of key records, what of it older libraries read, and which files it needs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hipslake.catalog.checks.metadata_checks import total_problems
from hipslake.catalog.metadata import CatalogMetadata, KeyChanges, KeyRecords, RecordRun
from hipslake.catalog.metadata.increments import set_aside
from hipslake.catalog.partitions import read_sidecar
from hipslake.catalog.records import run_files
from hipslake.catalog.upkeep.needed_files import needed_files
from hipslake.errors import CatalogFormatError
from hipslake.storage.folder import Storage

from tests.catalog.keyed import WRITE, run_of_records
from tests.catalog.little import sky, write_little
from tests.catalog.test_record_files import records_of


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage.at(tmp_path)


def little(storage: Storage) -> CatalogMetadata:
    ra, dec = sky(300)
    source = pa.table({"ra": ra, "dec": dec, "id": np.arange(300)})
    return write_little(storage, source, (ra, dec), position={"ra": "ra", "dec": "dec"})


def long_run(storage: Storage, monkeypatch: pytest.MonkeyPatch, name: str = "long") -> RecordRun:
    with monkeypatch.context() as patch:
        patch.setattr(run_files, "FILE_ROWS", 10)
        run = run_of_records(storage, records_of("int64", list(range(200)), [0] * 200), name)
    assert run.sidecar is not None
    return run


def keyed(metadata: CatalogMetadata, run: RecordRun, own: RecordRun, **counts: int) -> CatalogMetadata:
    (whole,) = metadata.increments
    sources = whole.sources.model_copy(update={"rows": whole.rows + counts.get("deletes", 0)})
    whole = whole.model_copy(update={"changes": KeyChanges(run=own, **counts), "sources": sources})
    records = KeyRecords(key=("id",), order_by="seq", runs=(run,), superseded=(own,))
    return metadata.model_copy(update={"increments": (whole,), "key_records": records})


def test_key_records_are_read_back_and_those_that_are_none_are_not_written(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = little(storage)
    assert b"key_records" not in plain.to_json()
    assert b"changes" not in plain.to_json()
    own = run_of_records(storage, records_of("int64", [5], [0]), "own")
    metadata = keyed(plain, long_run(storage, monkeypatch), own, deletes=3, updated=2)
    again = CatalogMetadata.from_json(metadata.to_json())
    assert again == metadata
    assert again.key_records is not None
    assert again.key_records.runs[0].listed(storage)[3].rows == 10
    assert (again.deletes, again.rows_left_out) == (3, 3)


def test_increments_that_are_set_aside_keep_their_changes(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = run_of_records(storage, records_of("two", [5, 900], [0, 0]), "own")
    (first,) = keyed(little(storage), own, own, deletes=4, inserted=7).increments
    second = first.model_copy(
        update={"ordinal": 1, "changes": KeyChanges(run=long_run(storage, monkeypatch), outdated=1)}
    )
    third = first.model_copy(update={"ordinal": 2, "changes": None})
    aside = set_aside([first, second, third], storage, WRITE)
    assert aside.read(storage) == (first, second, third)
    assert aside.deletes == 4
    plain = [each.model_copy(update={"changes": None}) for each in (first, second)]
    before = set_aside(plain, storage, "20261121T0330-0001")
    assert before.deletes is None
    assert before.read(storage) == tuple(plain)
    names = read_sidecar(storage, before, before.table_schema).column_names
    assert not {"changes", "superseded"} & set(names)


def test_a_version_needs_the_files_of_its_runs(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    run = long_run(storage, monkeypatch)
    own = run_of_records(storage, records_of("int64", [5], [0]), "own")
    metadata = keyed(little(storage), run, own)
    storage.write(f"{WRITE}/_records/gone/part-00000-000.parquet", b"PAR1")
    needed = needed_files(storage, [metadata, metadata], [WRITE])
    listed = {entry.path for entry in storage.list(f"{WRITE}/_records", recursive=True)}
    expected = {file.path for each in (run, own) for file in each.listed(storage)}
    assert {path for path in listed if needed.names(path)} == expected
    assert len(listed) == len(expected) + 1 == 22
    assert run.sidecar is not None
    assert needed.names(run.sidecar.path)
    other = needed_files(storage, [metadata], ["20261121T0330-0002"])
    assert other.below(WRITE) == 0


def test_sidecars_of_runs_in_other_writes_are_not_read(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = keyed(
        little(storage), long_run(storage, monkeypatch), RecordRun(ordinals="0", rows=0, bytes=0, files=())
    )
    monkeypatch.setattr(RecordRun, "listed", lambda self, storage: pytest.fail("read"))
    needed_files(storage, [metadata], ["20261121T0330-0002"])


def test_totals_know_of_superseded_rows_and_deletes(storage: Storage) -> None:
    own = run_of_records(storage, records_of("int64", [5], [0]), "own")
    metadata = keyed(little(storage), own, own, deletes=3)
    assert list(total_problems(metadata, metadata.increments, None)) == []
    assert metadata.key_records is not None
    beaten = metadata.key_records.model_copy(update={"rows_superseded": 2})
    wrong = metadata.model_copy(update={"key_records": beaten})
    (problem,) = total_problems(wrong, metadata.increments, None)
    assert "have 300 rows, 2 of them superseded, the catalog says 300" in problem.message
    (whole,) = metadata.increments
    fewer = whole.model_copy(update={"changes": KeyChanges(run=own, deletes=2)})
    (problem,) = total_problems(metadata, [fewer], None)
    assert "303 rows were read from the sources" in problem.message
    assert ", 2 of deletes" in problem.message


def test_a_run_without_a_list_of_files_is_refused(storage: Storage) -> None:
    own = run_of_records(storage, records_of("int64", [5], [0]), "own")
    document = json.loads(keyed(little(storage), own, own).to_json())
    del document["key_records"]["runs"][0]["files"], document["sha256"]
    with pytest.raises(CatalogFormatError, match="lists the files of the run"):
        CatalogMetadata.from_json(json.dumps(document))
