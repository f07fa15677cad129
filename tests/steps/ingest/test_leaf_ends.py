"""Footers and first rows that tasks hand on are those of the files; so no leaf is read for the HATS files."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.catalog.leaf import read_first_row
from hipslake.errors import CatalogFormatError
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest.leaf_ends import stored_ends
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table, write_table
from hipslake.storage.folder import Storage

from tests.steps import in_process
from tests.steps.kept_rows import land, many_kinds


def written(warehouse: str, place: Path, layout: str = "hats") -> RunFolder:
    spec_file = in_process.write_spec(place / "stars.yaml", f"{place}/landing/*.parquet", layout=layout)
    folder = in_process.start(warehouse, spec_file)
    in_process.freeze(folder)
    in_process.count(folder)
    in_process.make_plan(folder)
    in_process.write_leaves(folder)
    return folder


def published_files(folder: RunFolder) -> dict[str, bytes]:
    """All that a run has published, but for what tells when it was."""
    in_process.check(folder)
    in_process.commit(folder)
    in_process.show(folder)
    run = FrozenRun.of(folder)
    write = Storage.at(run.catalog_uri).sub(run.write_id)
    return {entry.path: write.read(entry.path) for entry in write.list(recursive=True)}


@pytest.fixture
def warehouse() -> str:
    return f"memory://{uuid.uuid4().hex}"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    in_process.write_source(tmp_path / "landing")
    return tmp_path


@pytest.mark.parametrize("on_disk", [False, True], ids=["store", "disk"])
def test_they_are_those_of_the_files(warehouse: str, place: Path, on_disk: bool) -> None:
    folder = written(str(place / "warehouse") if on_disk else warehouse, place)
    catalog = Storage.at(FrozenRun.of(folder).catalog_uri)
    files = read_table(folder.storage, RunFolder.PARTITIONS)
    ends = stored_ends(folder)
    assert sorted(ends) == sorted(files["path"].to_pylist())
    assert len(ends) > 5
    for path, found in ends.items():
        footer, row = read_first_row(catalog, path)
        assert found.footer.equals(footer)
        assert found.first_row.equals(row, check_metadata=True)


@pytest.mark.parametrize("row_group_rows", [1, 700, 10_000])
def test_of_rows_of_all_kinds_they_are_what_is_read_back(tmp_path: Path, row_group_rows: int) -> None:
    land(tmp_path / "landing", many_kinds(1500, seed=3), files=2)
    more = f"parquet: {{row_group_rows: {row_group_rows}}}"
    spec_file = in_process.write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet", more=more)
    folder = in_process.start(tmp_path / "warehouse", spec_file)
    in_process.freeze(folder)
    in_process.count(folder)
    in_process.make_plan(folder)
    in_process.write_leaves(folder)
    catalog = Storage.at(FrozenRun.of(folder).catalog_uri)
    ends = stored_ends(folder)
    assert len(ends) > 5
    for path, found in ends.items():
        footer, row = read_first_row(catalog, path)
        assert found.footer.equals(footer)
        assert found.footer.metadata == footer.metadata
        assert found.first_row.to_pylist() == row.to_pylist()
        assert found.first_row.schema.equals(row.schema, check_metadata=True)


def test_of_a_layout_without_hats_files_they_are_not_kept(warehouse: str, place: Path) -> None:
    folder = written(warehouse, place, "hipscat")
    assert not folder.storage.is_file(RunFolder.ENDS)
    assert stored_ends(folder) == {}


def test_what_is_too_much_is_left_out(warehouse: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(warehouse, place)
    files, whole = stored_ends(folder), read_table(folder.storage, RunFolder.ENDS).nbytes
    for share in (0.2, 0.5, 0.9):
        monkeypatch.setattr("hipslake.steps.ingest.write_tasks.MOST_BYTES", int(share * whole))
        some = written(f"memory://{uuid.uuid4().hex}", place)
        kept = stored_ends(some)
        assert 0 < len(kept) < len(files)
        assert read_table(some.storage, RunFolder.ENDS).nbytes <= share * whole * 1.1


@pytest.mark.parametrize("column", ["footer", "first_row"])
@pytest.mark.parametrize("damage", [b"", b"PAR1", bytes(100)], ids=len)
def test_damaged_ones_are_told(warehouse: str, place: Path, column: str, damage: bytes) -> None:
    folder = written(warehouse, place)
    ends = read_table(folder.storage, RunFolder.ENDS)
    damaged = pa.array([damage] * len(ends), pa.binary())
    write_table(
        folder.storage, RunFolder.ENDS, ends.set_column(ends.schema.get_field_index(column), column, damaged)
    )
    with pytest.raises(CatalogFormatError, match=r"write/ends\.parquet: is damaged"):
        stored_ends(folder)


@pytest.mark.parametrize("column", ["path", "footer", "first_row"])
def test_a_column_that_is_missing_is_told(warehouse: str, place: Path, column: str) -> None:
    folder = written(warehouse, place)
    ends = read_table(folder.storage, RunFolder.ENDS)
    write_table(folder.storage, RunFolder.ENDS, ends.drop_columns(column))
    with pytest.raises(CatalogFormatError, match=rf"write/ends\.parquet: has no column '{column}'"):
        stored_ends(folder)


def test_an_attempt_that_tells_none_leaves_none_of_the_one_before(
    warehouse: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(warehouse, place)
    assert stored_ends(folder)
    monkeypatch.setattr("hipslake.steps.ingest.write_tasks.MOST_BYTES", 0)
    in_process.make_plan(folder)
    folder.storage.delete(RunFolder.report_path("write"))
    in_process.write_leaves(folder)
    assert stored_ends(folder) == {}


def test_the_hats_files_are_the_same_and_no_leaf_is_read_for_them(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with files that are read, of a run that has kept no ends; and as on a disk."""
    reads: list[str] = []
    plain_footer, plain_row = pq.read_metadata, read_first_row

    def read(storage: Storage, path: str, *given: object) -> object:
        reads.append(path)
        return plain_row(storage, path, *given)  # type: ignore[arg-type]

    def footer(storage: Storage, path: str, *given: object) -> object:
        reads.append(path)
        with storage.arrow_file(path) as file:
            return plain_footer(file)

    monkeypatch.setattr("hipslake.catalog.hats.view_files.read_first_row", read)
    monkeypatch.setattr("hipslake.catalog.hats.view_files.read_footer", footer)
    found = []
    for number, told in enumerate((True, False)):
        folder = written(f"memory://{uuid.uuid4().hex}", place)
        if not told:
            folder.storage.delete(RunFolder.ENDS)
        reads.clear()
        found.append(published_files(folder))
        assert bool(reads) == bool(number)
    near = published_files(written(str(place / "warehouse"), place))
    dated = ("properties", "SHA256SUMS")
    hats = [path for path in near if path.startswith("main/") and not path.endswith(dated)]
    assert any(path.endswith("dataset/_metadata") for path in hats)
    assert any(path.endswith("data_thumbnail.parquet") for path in hats)
    for path in hats:
        assert found[0][path] == found[1][path] == near[path], path
