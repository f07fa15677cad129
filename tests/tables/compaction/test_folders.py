"""Compaction of folders of Parquet files, in this process."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.clustering.checksum import row_checksum
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import (
    CorruptFileError,
    FilterError,
    InputError,
    SchemaMismatchError,
    SpecError,
    VerificationError,
)
from hipslake.steps.compact_table import run as compact_table_run
from hipslake.steps.compact_table.rewrite_plan import open_compacted
from hipslake.storage.folder import Storage

from tests.tables.compaction.compacting import compact, files_in, request, rows_in, stars, write_folder

CURVES = ["zorder", "hilbert"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "stars", stars(20_000), 60)


def places(folder: Path, output: Path) -> dict[str, dict[str, str]]:
    return {"folder": {"uri": str(folder), "output": str(output)}}


def test_small_files_become_fewer_and_the_rows_stay(folder: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in files_in(folder)}
    report = compact(request(tmp_path, **places(folder, tmp_path / "out")))
    assert rows_in(tmp_path / "out").equals(rows_in(folder))
    after = files_in(tmp_path / "out")
    assert report.removed.files == 60
    assert report.added.files == report.files == report.expected_files == len(after) < 60
    assert report.bins == 1
    assert report.added.total_bytes == report.bytes == sum(path.stat().st_size for path in after)
    assert report.added.max_bytes == max(path.stat().st_size for path in after)
    assert (report.rows_in, report.rows_out) == (20_000, 20_000)
    assert before == {path: path.read_bytes() for path in files_in(folder)}
    assert not list(tmp_path.glob(".out*"))


@pytest.mark.parametrize("mode", CURVES)
def test_clustered_files_skip_and_the_rows_stay(folder: Path, tmp_path: Path, mode: str) -> None:
    asked = request(tmp_path, mode=mode, columns=["ra", "dec"], **places(folder, tmp_path / "out"))
    report = compact(asked)
    assert rows_in(tmp_path / "out").equals(rows_in(folder))
    assert report.before is not None
    assert report.after is not None
    assert report.before.files_touched == pytest.approx(60, rel=0.05)
    assert report.before.overlap_depth == pytest.approx(60, rel=0.05)
    assert (
        report.after.files == report.expected_files == report.added.files == len(files_in(tmp_path / "out"))
    )
    assert report.after.files_touched < 0.5 * report.after.files
    assert report.after.overlap_depth < 2.5
    rows = [pq.read_metadata(path).num_rows for path in files_in(tmp_path / "out")]
    assert max(rows) < 1.3 * min(rows)
    assert Path(report.picture).read_bytes().startswith(b"<svg ")


def test_a_folder_is_sorted_over_all_files(folder: Path, tmp_path: Path) -> None:
    by = {"mode": "sort", "sort": ["name desc nulls last", "ra"]}
    report = compact(request(tmp_path, **by, **places(folder, tmp_path / "out")))
    found = pa.concat_tables(pq.read_table(path) for path in files_in(tmp_path / "out")).to_pylist()
    assert report.added.files == report.expected_files > 1
    named = [row for row in found if row["name"] is not None]
    assert [row["name"] for row in named] == sorted((row["name"] for row in named), reverse=True)
    assert all(row["name"] is None for row in found[len(named) :])
    pairs = pairwise(found)
    assert all(one["ra"] <= two["ra"] for one, two in pairs if one["name"] == two["name"])
    assert rows_in(tmp_path / "out").equals(rows_in(folder))
    again = request(tmp_path, dry_run=True, **by, **places(tmp_path / "out", tmp_path / "two"))
    assert compact(again).removed.files == 0


def test_large_files_are_taken_over_as_they_are(folder: Path, tmp_path: Path) -> None:
    write_folder(folder, stars(8000, seed=1), 1)
    large = max(files_in(folder), key=lambda path: path.stat().st_size)
    report = compact(request(tmp_path, max_file_size="1 MiB", **places(folder, tmp_path / "out")))
    assert report.files_skipped == 1
    assert (tmp_path / "out" / large.name).samefile(large)
    assert rows_in(tmp_path / "out").equals(rows_in(folder))


def test_what_is_clustered_is_left_alone_once_its_group_has_its_size(folder: Path, tmp_path: Path) -> None:
    by = {"mode": "hilbert", "columns": ["ra", "dec"], "group_size": "50 KiB"}
    first = compact(request(tmp_path, **by, **places(folder, tmp_path / "one")))
    again = compact(request(tmp_path, **by, **places(tmp_path / "one", tmp_path / "two")))
    assert (again.version, again.bins, again.files_skipped) == ("", 0, first.added.files)
    assert not (tmp_path / "two").exists()

    write_folder(tmp_path / "one", stars(1500, seed=2), 3)
    more = compact(request(tmp_path, **by, **places(tmp_path / "one", tmp_path / "three")))
    assert (more.removed.files, more.files_skipped) == (3, first.added.files)
    assert rows_in(tmp_path / "three").equals(rows_in(tmp_path / "one"))

    full = compact(request(tmp_path, full=True, **by, **places(tmp_path / "one", tmp_path / "four")))
    assert full.removed.files == first.added.files + 3
    other = request(tmp_path, **by | {"columns": ["dec"]}, **places(tmp_path / "one", tmp_path / "five"))
    assert compact(other).removed.files == first.added.files + 3


def test_what_was_clustered_is_not_so_any_more_when_it_is_packed(folder: Path, tmp_path: Path) -> None:
    by = {"mode": "hilbert", "columns": ["ra", "dec"], "group_size": "1 KiB"}
    compact(request(tmp_path, **by, **places(folder, tmp_path / "one")))
    compact(request(tmp_path, target_file_size="1 MiB", **places(tmp_path / "one", tmp_path / "two")))
    (packed,) = files_in(tmp_path / "two")
    again = compact(request(tmp_path, dry_run=True, **by, **places(tmp_path / "two", tmp_path / "three")))
    assert (again.removed.files, again.files_skipped) == (1, 0), packed


@pytest.fixture
def nights(tmp_path: Path) -> Path:
    for night in ("2026-01-01", "2026-01-02", "2026-02-01"):
        write_folder(tmp_path / "nights", stars(4000, seed=int(night[6])), 6, f"night={night}")
    return tmp_path / "nights"


def test_partitions_are_kept_apart_and_chosen_by_a_filter(nights: Path, tmp_path: Path) -> None:
    by = {"mode": "zorder", "columns": ["ra"], "partitions": "night < '2026-02-01'"}
    report = compact(request(tmp_path, **by, **places(nights, tmp_path / "out")))
    assert (report.partitions, report.files_considered, report.removed.files) == (2, 12, 12)
    assert rows_in(tmp_path / "out").equals(rows_in(nights))
    assert len(files_in(tmp_path / "out" / "night=2026-02-01")) == 6
    assert len(files_in(tmp_path / "out" / "night=2026-01-01")) == report.added.files / 2


def test_a_partition_column_may_begin_with_an_underscore(tmp_path: Path) -> None:
    rows = [stars(100, seed=seed) for seed in range(3)]
    folder = write_folder(tmp_path / "sky", rows[0], 2, "_healpix_5=7")
    write_folder(folder, rows[1], 2, "night=1/_healpix_5=8")
    write_folder(folder, rows[2], 2, "_temporary")  # what readers pass over
    report = compact(request(tmp_path, folder={"uri": str(folder), "output": str(tmp_path / "new")}))
    assert report.rows_out == 200
    found = [pq.read_table(path, partitioning=None) for path in files_in(tmp_path / "new")]
    assert row_checksum(pa.concat_tables(found)) == row_checksum(pa.concat_tables(rows[:2]))


def test_no_file_that_matches_is_nothing_to_do(nights: Path, tmp_path: Path) -> None:
    report = compact(request(tmp_path, partitions="night > '2030-01-01'", **places(nights, tmp_path / "out")))
    assert (report.files_considered, report.version) == (0, "")
    assert "no file matches the filter; nothing to do" in report.text
    assert not (tmp_path / "out").exists()


def test_a_dry_run_only_plans(folder: Path, tmp_path: Path) -> None:
    report = compact(request(tmp_path, dry_run=True, **places(folder, tmp_path / "out")))
    assert (report.removed.files, report.version) == (60, "")
    assert report.expected_files > 1
    assert "about" in report.text
    assert not (tmp_path / "out").exists()


def test_a_rerun_completes_and_one_more_takes_over(folder: Path, tmp_path: Path) -> None:
    left = tmp_path / "out-of-a-killed-run"
    asked = request(tmp_path, run="by hand", **places(folder, left))
    with open_compacted(asked).rewriting() as killed:
        killed.access.write(stars(10), "", "half", None)
        hidden = [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")]
        assert len(hidden) == 1
        assert not left.exists()
        report = compact(asked)  # as a retry after a kill finds it
    assert rows_in(left).equals(rows_in(folder))
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")]
    again = compact_table_run.run(asked, ThisProcess(2))  # killed after the commit, before its report
    assert again.version == report.version == str(left)


def test_on_an_object_store_a_sign_appears_last(folder: Path, tmp_path: Path, bucket: str) -> None:
    output = Storage.at(f"{bucket}/{tmp_path.name}")
    asked = request(tmp_path, run="by hand", folder={"uri": str(folder), "output": output.uri()})
    with open_compacted(asked).rewriting() as killed:
        killed.access.write(stars(10), "", "half", None)
        assert not output.is_file("_SUCCESS")
        report = compact(asked)
    names = [entry.path for entry in output.list()]
    assert "half.parquet" not in names
    assert "_WRITING" not in names
    assert "_SUCCESS" in names
    rows = pa.concat_tables(
        pq.read_table(output.open(name)) for name in names if name.endswith(".parquet")
    ).sort_by("id")
    assert (report.version, rows.equals(rows_in(folder))) == (output.uri(), True)
    with pytest.raises(SpecError, match="exists already, and was not written by this run"):
        compact(request(tmp_path, folder={"uri": str(folder), "output": output.uri()}))


def test_an_output_of_somebody_else_is_not_touched(folder: Path, tmp_path: Path) -> None:
    output = write_folder(tmp_path / "out", stars(10), 1)
    with pytest.raises(SpecError, match="exists already, and was not written by this run"):
        compact(request(tmp_path, **places(folder, output)))
    assert rows_in(output).num_rows == 10


def test_nothing_is_seen_of_rows_that_changed_on_the_way(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hipslake.tables.parquet_folder.folder_access import FolderAccess

    write = FolderAccess.write

    def forgetful(self: FolderAccess, rows: pa.Table, *told: object) -> object:
        return write(self, pa.concat_tables([rows.slice(1), rows.slice(1, 1)]), *told)

    monkeypatch.setattr(FolderAccess, "write", forgetful)
    with pytest.raises(VerificationError, match=r"20000 rows, 20000 were read .* and 20000 written"):
        compact(request(tmp_path, **places(folder, tmp_path / "out")))
    assert {path.name for path in tmp_path.iterdir()} == {"stars", "warehouse"}


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"mode": "zorder", "columns": ["flux"]}, SpecError, "no column flux to cluster by; there are id"),
        ({"mode": "zorder", "columns": ["night"]}, SpecError, "partitioned by night: each file has one"),
        ({"mode": "zorder", "columns": ["tags"]}, InputError, "column tags is list<.*>, whose values have"),
        ({"partitions": "nigth < 3"}, FilterError, "did you mean 'night'"),
        ({"partitions": "night < 3"}, FilterError, "type string; compare it with a 'text', not with 3"),
    ],
)  # fmt: skip
def test_mistakes_are_told(
    nights: Path, tmp_path: Path, given: dict, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        compact(request(tmp_path, **given, **places(nights, tmp_path / "out")))


@pytest.mark.parametrize("by", [{}, {"mode": "hilbert", "columns": ["id", "name"]}])
def test_files_that_differ_in_nulls_in_order_and_in_how_texts_are_stored(
    tmp_path: Path, by: dict[str, object]
) -> None:
    (tmp_path / "stars").mkdir()
    part = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    one = pa.schema(
        [("id", pa.int64()), ("name", pa.string()), ("s", pa.list_(pa.struct([("x", pa.int64())])))]
    )
    two = pa.schema(
        [
            pa.field("s", pa.large_list(pa.field("item", part, nullable=False))),
            pa.field("name", pa.dictionary(pa.int8(), pa.large_string()), nullable=False),
            pa.field("id", pa.int64(), nullable=False),
        ]
    )
    rows = [
        [{"id": 1, "name": "a", "s": [{"x": 1}, {"x": None}]}, {"id": None, "name": None, "s": None}],
        [{"id": 3, "name": "c", "s": [{"x": 5}]}, {"id": 4, "name": "d", "s": []}],
    ]
    for at, (schema, few) in enumerate(zip((one, two), rows, strict=True)):
        pq.write_table(pa.Table.from_pylist(few, schema=schema), tmp_path / "stars" / f"{at}.parquet")
    report = compact(request(tmp_path, **by, **places(tmp_path / "stars", tmp_path / "out")))
    assert report.added.files == 1
    found = pq.read_table(files_in(tmp_path / "out")[0]).sort_by("id").to_pylist()
    assert found == [rows[0][0], *rows[1], rows[0][1]]


def test_folders_that_cannot_be_compacted_are_told(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="lie in each other"):
        compact(request(tmp_path, **places(folder, folder / "out")))
    with pytest.raises(SpecError, match="has no partitions to filter by"):
        compact(request(tmp_path, partitions="night > 3", **places(folder, tmp_path / "out")))
    with pytest.raises(InputError, match="holds no Parquet file"):
        compact(request(tmp_path, **places(tmp_path / "nowhere", tmp_path / "out")))
    pq.write_table(pa.table({"id": ["x"]}), folder / "other.parquet")
    lacks = r"other.parquet has other columns than .*: it lacks dec, name, ra, tags; id is string, not int64"
    with pytest.raises(SchemaMismatchError, match=lacks):
        compact(request(tmp_path, **places(folder, tmp_path / "out")))
    (folder / "other.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(CorruptFileError, match=r"other\.parquet is damaged, or is no Parquet file"):
        compact(request(tmp_path, **places(folder, tmp_path / "out")))


def test_views_of_texts_and_columns_of_nulls_are_rewritten(tmp_path: Path) -> None:
    long = "longer than the twelve bytes that a view holds itself"
    rows = pa.table(
        {
            "id": range(4),
            "t": pa.array(["a", None, long, ""], pa.string_view()),
            "b": pa.array([b"a", None, long.encode(), b""], pa.binary_view()),
            "l": pa.array([["a"], None, [long, None], []], pa.list_(pa.string_view())),
            "n": pa.nulls(4),
        }
    )
    folder = write_folder(tmp_path / "in", rows, 2)
    compact(request(tmp_path, mode="zorder", columns=["id"], full=True, **places(folder, tmp_path / "out")))
    assert rows_in(tmp_path / "out").to_pylist() == rows.to_pylist()
