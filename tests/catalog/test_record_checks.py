"""Verification holds leaves against key records: what is right passes, and each kind of fault is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hipslake.catalog.checks import record_checks
from hipslake.catalog.checks.record_checks import record_problems
from hipslake.catalog.checks.record_file_checks import record_paths
from hipslake.catalog.metadata import CatalogMetadata, KeyChanges, KeyRecords, RecordFile, RecordRun
from hipslake.catalog.metadata.increments import Cell
from hipslake.catalog.metadata.key_records import described_run
from hipslake.catalog.records import run_files
from hipslake.catalog.records.record_lookup import BY_ROW
from hipslake.catalog.records.record_rows import as_records, key_of, records_schema
from hipslake.catalog.records.run_files import run_folder, write_run_files
from hipslake.catalog.records.run_merging import merged_runs
from hipslake.catalog.verification import verify_catalog
from hipslake.engine.this_process import ThisProcess
from hipslake.sphere.pixels import order29
from hipslake.storage.folder import Storage

from tests.catalog.keyed import WRITE, run_of_records
from tests.catalog.little import write_little

ENGINE = ThisProcess(2)
KEY = ("field", "id")
STARTS = ["2026-11-20T00:00:00+00:00", "2026-11-22T00:00:00+00:00", "2026-11-21T00:00:00+00:00"]


class Keyed(NamedTuple):
    """A catalog of three nights, of which the last came late."""

    storage: Storage
    rows: pa.Table  # all puts of all nights, with `_row` and `_healpix_29`
    lives: np.ndarray  # which of them are in the leaves
    metadata: CatalogMetadata

    def problems(self, **fields: Any) -> list[str]:
        metadata = self.metadata.model_copy(update=fields)
        return [str(problem) for problem in record_problems(self.storage, metadata, ENGINE)]


def rows_of_nights(order_by: bool, seed: int) -> tuple[pa.Table, np.ndarray, np.ndarray]:
    """Records of all nights, which of them are deletes, and which rows live, by a dict."""
    rng = np.random.default_rng(seed)
    ordinal = np.repeat([0, 1, 2], 120)
    number = np.concatenate([rng.permutation(300)[:120] for _ in range(3)])
    dec = np.degrees(np.arcsin(rng.uniform(-1, 1, 360)))
    ra = rng.uniform(0, 360, 360)
    rows = pa.table(
        {
            "field": [f"f{each // 50}" for each in number],
            "id": pa.array(number % 50, pa.int32()),
            "seq": rng.permutation(360) / 4,
            "ra": ra,
            "dec": dec,
            "_healpix_29": order29(ra, dec),
            "_row": (ordinal << 40) + np.tile(np.arange(120), 3),
        }
    )
    delete = rng.random(360) < 0.2
    starts = [STARTS[each] for each in ordinal]
    winners: dict[int, tuple[Any, int]] = {}
    for at, key in enumerate(number.tolist()):
        rank = rows["seq"][at].as_py() if order_by else starts[at]
        if key not in winners or winners[key][0] < rank:
            winners[key] = rank, at
    lives = np.zeros(360, bool)
    lives[[at for _, at in winners.values()]] = True
    return rows, delete, lives & ~delete


def keyed(
    path: Path,
    *,
    order_by: bool = True,
    layout: str = "hats",
    change: Callable[[pa.Table, np.ndarray], tuple[pa.Table, np.ndarray]] = lambda rows, lives: (rows, lives),
) -> Keyed:
    """A catalog with records; `change` changes what the leaves hold of the rows."""
    storage = Storage.at(path)
    rows, delete, lives = rows_of_nights(order_by, 5)
    schema = records_schema(rows.schema, KEY, "seq" if order_by else None)
    row, h29 = rows["_row"].to_numpy(), rows["_healpix_29"].to_numpy()
    records = as_records(rows, schema, "seq" if order_by else None, row=row, h29=h29, delete=delete)
    nights = [run_of_records(storage, records.slice(120 * n, 120), f"night_{n}") for n in range(3)]
    merged = merged_runs(storage, ENGINE, nights[:2], schema, key_of(schema), write_id=WRITE, name="merged")
    beaten = rows.filter(pa.array(~lives & ~delete))
    files = write_run_files(storage, run_folder(WRITE, "superseded"), 0, beaten, BY_ROW)
    superseded = described_run(storage, WRITE, "superseded", files, [0, 1, 2])
    in_leaves, kept = change(rows, lives)
    in_leaves = in_leaves.filter(pa.array(kept))
    metadata = write_little(
        storage,
        in_leaves.drop_columns(["_healpix_29", "_row"]),
        (in_leaves["ra"].to_numpy(), in_leaves["dec"].to_numpy()),
        rows=in_leaves["_row"].to_numpy(),
        layout=layout,
        mode="append",
        position={"ra": "ra", "dec": "dec"},
        source={"uri": "/nights/{{ night }}.parquet", "format": "parquet"},
        threshold="60 rows",
        column_groups=[{"name": "main", "columns": "*"}, {"name": "keys", "columns": ["id", "seq"]}],
    )
    (whole,) = metadata.increments
    increments = []
    for ordinal, run in enumerate(nights):
        puts = int(np.count_nonzero(~delete[120 * ordinal : 120 * ordinal + 120]))
        increments.append(
            whole.model_copy(
                update={
                    "ordinal": ordinal,
                    "key": STARTS[ordinal],
                    "rows": puts,
                    "sources": whole.sources.model_copy(update={"rows": 120}),
                    "coverage": None,
                    "leaves": (Cell(order=0, npix=0, rows=puts),),
                    "changes": KeyChanges(run=run, deletes=120 - puts),
                }
            )
        )
    key_records = KeyRecords(
        key=KEY,
        order_by="seq" if order_by else None,
        runs=(merged.run, nights[2]),
        superseded=(superseded,),
        rows_superseded=beaten.num_rows,
    )
    fields = {"increments": tuple(increments), "key_records": key_records}
    return Keyed(storage, rows, lives, metadata.model_copy(update=fields))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("order_by", [True, False])
@pytest.mark.parametrize("layout", ["hats", "hipscat"])
def test_what_is_right_has_no_problem(
    tmp_path: Path, order_by: bool, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_files, "FILE_ROWS", 30)
    monkeypatch.setattr(run_files, "_GROUP_ROWS", 8)
    monkeypatch.setattr(record_checks, "FILE_ROWS", 25)
    catalog = keyed(tmp_path, order_by=order_by, layout=layout)
    assert catalog.problems() == []
    found = verify_catalog(catalog.storage, catalog.metadata, ENGINE)
    assert [str(each) for each in found.problems if "HATS" not in str(each)] == []
    assert catalog.metadata.total_rows == np.count_nonzero(catalog.lives) > 100


def test_a_winner_that_is_missing_and_a_loser_that_is_there_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_checks, "PASS_ROWS", 100)
    first, beaten = 0, 0

    def swapped(rows: pa.Table, lives: np.ndarray) -> tuple[pa.Table, np.ndarray]:
        nonlocal first, beaten
        first, beaten = int(np.flatnonzero(lives)[0]), int(np.flatnonzero(~lives)[-1])
        changed = lives.copy()
        changed[[first, beaten]] = False, True
        return rows, changed

    catalog = keyed(tmp_path, change=swapped)
    row = catalog.rows["_row"].to_numpy()
    assert [each.split(":")[2].strip() + each.split(":")[3].split(";")[0] for each in catalog.problems()] == [
        "1 rows are in the leaves, but not those of the last records of their keys"
        f" row {row[beaten] & 0xFFFF} of increment 2",
        "1 rows should be in the leaves by the last records of their keys, and are not"
        f" row {row[first] & 0xFFFF} of increment 0",
    ]


def test_a_row_with_another_key_than_its_record_is_told(tmp_path: Path) -> None:
    def renamed(rows: pa.Table, lives: np.ndarray) -> tuple[pa.Table, np.ndarray]:
        ids = rows["id"].to_numpy().copy()
        ids[np.flatnonzero(lives)[3]] += 1
        return rows.set_column(rows.column_names.index("id"), "id", pa.array(ids, pa.int32())), lives

    (problem,) = keyed(tmp_path, change=renamed).problems()
    assert "rows have other values in 'id' than their records" in problem


def test_a_row_that_lies_elsewhere_than_its_record_says_is_told(tmp_path: Path) -> None:
    def moved(rows: pa.Table, lives: np.ndarray) -> tuple[pa.Table, np.ndarray]:
        dec = rows["dec"].to_numpy().copy()
        dec[np.flatnonzero(lives)[3]] *= -0.9
        return rows.set_column(rows.column_names.index("dec"), "dec", pa.array(dec)), lives

    (problem,) = keyed(tmp_path, change=moved).problems()
    assert "1 rows lie elsewhere on the sky than their records say" in problem


def test_superseded_rows_are_counted_and_looked_for(tmp_path: Path) -> None:
    catalog = keyed(tmp_path)
    records = catalog.metadata.key_records
    assert records is not None
    count = records.rows_superseded
    (problem,) = catalog.problems(key_records=records.model_copy(update={"rows_superseded": count + 1}))
    assert f"{count} rows are superseded by their records, metadata.json says {count + 1}" in problem
    without = records.model_copy(update={"superseded": (records.superseded[0].without(1),)})
    (problem,) = catalog.problems(key_records=without)
    lost = ~catalog.lives & (catalog.rows["_row"].to_numpy() >> 40 == 1)
    assert "rows were superseded, and are not in the files of superseded rows: row " in problem
    assert int(problem.split("key records: ")[1].split()[0]) <= np.count_nonzero(lost)
    (problem,) = catalog.problems(key_records=records.model_copy(update={"superseded": ()}))
    assert f"{count} rows were superseded" in problem


def test_files_that_were_looked_at_for_another_version_are_not_read_again(tmp_path: Path) -> None:
    catalog = keyed(tmp_path)
    seen = record_paths(catalog.storage, catalog.metadata)
    assert len(seen) == 5  # of three nights, of two of them together, and of superseded rows
    first, *others = sorted(seen)
    catalog.storage.write(first, b"PAR1")
    catalog.storage.delete(others[0])

    def found(*paths: str) -> list[str]:
        problems = record_problems(
            catalog.storage, catalog.metadata, ENGINE, seen=set(paths), against_rows=False
        )
        return [problem.path for problem in problems]

    assert found(*seen) == []
    assert found(*others) == [first, first]  # its size, and its checksum
    assert found(first, *others[1:]) == [others[0]]


def test_damaged_files_of_records_are_told(tmp_path: Path) -> None:
    catalog = keyed(tmp_path)
    records = catalog.metadata.key_records
    assert records is not None
    (file,), (beaten,) = (run.listed(catalog.storage) for run in (records.runs[0], records.superseded[0]))
    data = bytearray(catalog.storage.read(file.path))
    data[40] ^= 1
    catalog.storage.write(file.path, bytes(data))
    catalog.storage.delete(beaten.path)
    problems = sorted(catalog.problems())
    assert [problem.split(":")[1].strip() for problem in problems] == ["checksum", "missing file"]
    assert [problem.split(":")[0] for problem in problems] == [file.path, beaten.path]


def test_runs_that_lack_what_a_night_brought_are_told(tmp_path: Path) -> None:
    catalog = keyed(tmp_path)
    records = catalog.metadata.key_records
    assert records is not None
    table = pa.concat_tables(
        list(
            run_files.read_span(
                catalog.storage,
                records.runs[:1],
                schema := records_schema(catalog.rows.schema, KEY, "seq"),
                key_of(schema),
                run_files.KeySpan(),
            )
        )
    )
    fewer = run_of_records(catalog.storage, table.slice(0, 239), "fewer")
    (problem,) = catalog.problems(key_records=records.model_copy(update={"runs": (fewer, records.runs[1])}))
    assert "which brought 120 records, the run has 119" in problem
    delete = table["_delete"].to_numpy().copy()
    delete[7] = ~delete[7]
    at = table.column_names.index("_delete")
    other = run_of_records(catalog.storage, table.set_column(at, schema.field(at), pa.array(delete)), "other")
    (problem,) = catalog.problems(key_records=records.model_copy(update={"runs": (other, records.runs[1])}))
    assert "the run has other records of increment" in problem


def test_files_that_are_not_what_metadata_says_are_told(tmp_path: Path) -> None:
    catalog = keyed(tmp_path)
    records = catalog.metadata.key_records
    assert records is not None

    def with_file(**fields: Any) -> list[str]:
        run = records.runs[0]
        (file,) = run.listed(catalog.storage)
        changed = RecordFile.model_validate({**file.model_dump(), **fields})
        rows = {"rows": changed.rows, "files": (changed,)}
        return catalog.problems(
            key_records=records.model_copy(update={"runs": (run.model_copy(update=rows), records.runs[1])})
        )

    assert "it has 240 entries, metadata.json says 7" in with_file(rows=7)[0]
    assert "its keys do not run from f0, 0" in with_file(first=("f0", "0"), last=("f0", "1"))[0]
    assert "says 5" in with_file(bytes=5)[0]


def test_lists_that_contradict_each_other_are_told(tmp_path: Path) -> None:
    catalog = keyed(tmp_path)
    records = catalog.metadata.key_records
    assert records is not None
    merged, night = records.runs

    def with_runs(*runs: RecordRun) -> list[str]:
        found = catalog.problems(key_records=records.model_copy(update={"runs": runs}))
        return [problem.split(": ", 2)[2].split(";")[0] for problem in found]

    assert with_runs(merged) == ["the records of increment 2 are in no run"]
    assert with_runs(merged, night, night) == ["the records of increment 2 are in 2 runs"]
    more = night.model_copy(update={"ordinals": "2,9"})
    assert with_runs(merged, more) == ["a run has records of increment 9, which brought none"]
    strange = records.superseded[0].model_copy(update={"ordinals": "0-2,9"})
    (problem,) = catalog.problems(key_records=records.model_copy(update={"superseded": (strange,)}))
    assert "superseded rows of increment 9, which the version does not have" in problem
    (problem,) = catalog.problems(key_records=None)
    assert "increments have key records, but the version has none" in problem
    first, *others = catalog.metadata.increments
    assert first.changes is not None
    wrong = first.changes.model_copy(update={"deletes": 0})
    found = catalog.problems(increments=(first.model_copy(update={"changes": wrong}), *others))
    assert "increment 0 has 120 records, but" in found[0]
