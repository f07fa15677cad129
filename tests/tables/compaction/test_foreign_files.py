"""Compaction of folders that other engines wrote: no value is misread, no file is taken for another kind."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import CorruptFileError, HipslakeError, InputError, SpecError, VerificationError

from tests.tables.compaction.compacting import compact, files_in, request, stars, write_folder

FAR = [
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
    dt.datetime(1, 1, 1),
    dt.datetime(1816, 3, 29, 5, 6),
    None,
]


def places(folder: Path, output: Path) -> dict[str, Any]:
    return {"folder": {"uri": str(folder), "output": str(output)}}


def int96(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, row_group_size=2)


def test_int96_times_of_any_year_stay_what_they_are(tmp_path: Path) -> None:
    rows = pa.table({"id": range(4), "t": pa.array(FAR, pa.timestamp("us"))})
    int96(tmp_path / "in" / "a.parquet", rows)
    int96(tmp_path / "in" / "b.parquet", rows.slice(1))
    compact(request(tmp_path, **places(tmp_path / "in", tmp_path / "out")))
    (path,) = files_in(tmp_path / "out")
    found = pq.read_table(path)
    assert found.schema.field("t").type == pa.timestamp("us")
    assert found.sort_by("id")["t"].to_pylist() == [FAR[0], *[t for t in FAR[1:] for _ in range(2)]]


def test_int96_nanoseconds_are_kept(tmp_path: Path) -> None:
    values = pa.array([1, -1, 1_700_000_000_123_456_789, None], pa.timestamp("ns"))
    nested = pa.array([[1, 2], [], None, [None]], pa.list_(pa.timestamp("ns")))
    int96(tmp_path / "in" / "a.parquet", pa.table({"t": values, "n": nested}))
    int96(tmp_path / "in" / "b.parquet", pa.table({"t": values, "n": nested}).slice(0, 0))
    compact(request(tmp_path, **places(tmp_path / "in", tmp_path / "out")))
    (path,) = files_in(tmp_path / "out")
    assert pq.read_table(path)["t"].combine_chunks().equals(values)
    assert pq.read_table(path)["n"].to_pylist() == nested.to_pylist()
    assert pq.ParquetFile(path).schema.column(0).physical_type == "INT64"


def test_int96_times_that_no_unit_holds_are_refused(tmp_path: Path) -> None:
    int96(tmp_path / "in" / "a.parquet", pa.table({"t": pa.array(FAR, pa.timestamp("us"))}))
    int96(tmp_path / "in" / "b.parquet", pa.table({"t": pa.array([1], pa.timestamp("ns"))}))
    with pytest.raises(
        InputError, match=r"a\.parquet: column 't' is of INT96 times, and lies beyond what timest"
    ):
        compact(request(tmp_path, **places(tmp_path / "in", tmp_path / "out")))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("unit", ["ns", "us"])
def test_the_checksum_sees_what_the_reader_makes_of_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: str
) -> None:
    """A reader that wraps: the old one, with nothing that looks at the values first."""
    from hipslake.tables.parquet_folder import compacted_folder, folder_access

    times = [dt.datetime(9999, 1, 1)] if unit == "ns" else [pa.scalar(1, pa.timestamp("ns"))]
    kind = pa.timestamp("us" if unit == "ns" else "ns")
    for name in ("a", "b"):
        int96(tmp_path / "in" / f"{name}.parquet", pa.table({"t": pa.array(times, kind)}))
    monkeypatch.setattr(compacted_folder, "int96_unit", lambda *_, **__: unit)
    monkeypatch.setattr(folder_access, "check_int96", lambda *_: None)
    with pytest.raises(VerificationError, match="nothing is changed"):
        compact(request(tmp_path, **places(tmp_path / "in", tmp_path / "out")))


@pytest.mark.parametrize("inside", ["", "part", "day=1/hour=2"])
@pytest.mark.parametrize(
    ("log", "named", "way"),
    [
        ("_delta_log/00000000000000000000.json", "Delta Lake", "OPTIMIZE"),
        (".hoodie/hoodie.properties", "Hudi", "run_clustering"),
        ("_spark_metadata/0", "Spark's streaming", "read it with Spark"),
        ("metadata/v1.metadata.json", "Iceberg", "table: namespace.table"),
        ("metadata/00001-ab.gz.metadata.json", "Iceberg", "table: namespace.table"),
        ("_versions/00000001.json", "a catalog or a cube of hipslake", "catalog_compact"),
    ],
)
def test_a_folder_of_a_table_format_is_refused(
    tmp_path: Path, log: str, named: str, way: str, inside: str
) -> None:
    """The folder of the table, one in it, and one above it."""
    root = tmp_path / "lake" / "table"
    write_folder(root, stars(100), 2, inside)
    (root / log).parent.mkdir(parents=True)
    (root / log).write_text("{}")
    for given in {root, root / inside, tmp_path / "lake"}:
        with pytest.raises(SpecError) as told:
            compact(request(tmp_path, **places(given, tmp_path / "out")))
        assert named in str(told.value)
        assert way in str(told.value)
        assert str(root) in str(told.value)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_called_metadata_is_no_table(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "in", stars(100), 2)
    write_folder(folder, stars(100, seed=1), 1, "metadata")
    compact(request(tmp_path, **places(folder, tmp_path / "out")))
    assert sum(pq.read_metadata(path).num_rows for path in files_in(tmp_path / "out")) == 200


def test_files_without_a_known_suffix_are_read_if_they_are_parquet_and_else_said(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "in", stars(100), 2)
    pq.write_table(stars(50, seed=1), folder / "000000_0")
    (folder / "notes.txt").write_text("PAR")
    (folder / "_SUCCESS").write_text("")
    (folder / ".a.parquet.crc").write_text("")
    pq.write_table(stars(50, seed=2), folder / "_hidden.parquet")
    report = compact(request(tmp_path, **places(folder, tmp_path / "out")))
    assert report.rows_out == 150
    assert report.files_left_out == 2
    assert report.left_out == ("_hidden.parquet", "notes.txt")
    assert (
        "2 files are left out, as they are hidden or no Parquet files: _hidden.parquet, notes.txt."
        in report.text
    )


def damaged(tmp_path: Path) -> dict[str, bytes]:
    path = tmp_path / "whole.parquet"
    pq.write_table(stars(1000), path, compression="snappy")
    whole = path.read_bytes()
    turned = bytearray(whole)
    turned[200:400] = bytes(255 - byte for byte in turned[200:400])
    return {
        "empty": b"",
        "magic": b"PAR1",
        "no footer": whole[:-8],
        "cut": whole[: len(whole) // 2],
        "text": b"a,b\n1,2\n" * 100,
        "orc": b"ORC" + bytes(100),
        "length": whole[:-8] + b"\xff\xff\xff\x7fPAR1",
        "pages": bytes(turned),
        "footer": whole[:-300] + bytes(200) + whole[-100:],
        "encrypted": whole[:-4] + b"PARE",
    }


@pytest.mark.parametrize(
    "kind", ["empty", "magic", "no footer", "cut", "text", "orc", "length", "pages", "footer", "encrypted"]
)
def test_damage_is_told_with_the_file(tmp_path: Path, kind: str) -> None:
    folder = write_folder(tmp_path / "in", stars(100), 2)
    (folder / "bad.parquet").write_bytes(damaged(tmp_path)[kind])
    expected = "is encrypted" if kind == "encrypted" else "damaged"
    with pytest.raises(InputError, match=rf"bad\.parquet .*{expected}"):
        compact(request(tmp_path, full=True, **places(folder, tmp_path / "out")))
    assert not (tmp_path / "out").exists()


def test_any_bytes_that_change_are_told_or_do_no_harm(tmp_path: Path) -> None:
    """Damage at random places of a file: an error of ours, or the same rows."""
    rows = pa.table(
        {"id": range(300), "t": pa.array(range(300), pa.timestamp("us")), "s": ["x" * n for n in range(300)]}
    )
    path = tmp_path / "in" / "a.parquet"
    random = np.random.default_rng(7)
    for case in range(60):
        int96(path, rows)
        content = bytearray(path.read_bytes())
        low = len(content) - 900 if case % 2 else 0
        for place in random.integers(low, len(content), 1 + case % 4):
            content[place] ^= 1 << int(random.integers(8))
        path.write_bytes(bytes(content))
        pq.write_table(rows.slice(0, 5), path.with_name("b.parquet"), use_deprecated_int96_timestamps=True)
        try:
            compact(request(tmp_path, full=True, **places(path.parent, tmp_path / f"out-{case}")))
        except HipslakeError:
            continue


def test_files_of_no_column_and_of_no_row_are_compacted_or_told(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "in", stars(10), 1)
    pq.write_table(stars(10).slice(0, 0), folder / "none.parquet")
    assert compact(request(tmp_path, full=True, **places(folder, tmp_path / "out"))).rows_out == 10
    (tmp_path / "bare").mkdir()
    for name in ("a", "b"):
        pq.write_table(pa.table({"x": [1, 2]}).select([]), tmp_path / "bare" / f"{name}.parquet")
    compact(request(tmp_path, full=True, **places(tmp_path / "bare", tmp_path / "out-2")))
    rows = [
        sum(pq.read_metadata(path).num_rows for path in files_in(tmp_path / name))
        for name in ("bare", "out-2")
    ]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("precision", [5, 15, 38, 76])
def test_decimals_are_the_same_however_they_are_stored(tmp_path: Path, precision: int) -> None:
    made = pa.decimal128 if precision <= 38 else pa.decimal256
    values = pa.array(
        [Decimal("0.01"), Decimal(-1), Decimal("-999.99"), None, Decimal(0)], made(precision, 2)
    )
    for at, whole in enumerate((True, False)):
        (tmp_path / "in").mkdir(exist_ok=True)
        path = tmp_path / "in" / f"{at}.parquet"
        pq.write_table(pa.table({"d": values}), path, store_decimal_as_integer=whole)
    report = compact(request(tmp_path, full=True, **places(tmp_path / "in", tmp_path / "out")))
    assert report.rows_out == 10
    assert sorted(map(str, pq.read_table(files_in(tmp_path / "out")[0])["d"].to_pylist())) == sorted(
        map(str, values.to_pylist() * 2)
    )


def test_a_damaged_file_names_itself(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "in", stars(100), 2)
    files_in(folder)[0].write_bytes(b"PAR1 not really")
    with pytest.raises(CorruptFileError, match="is damaged, or is no Parquet file"):
        compact(request(tmp_path, **places(folder, tmp_path / "out")))
