"""HiPS of several versions side by side: what is published, what names it, what goes, and what is refused."""

from __future__ import annotations

import os
import shutil
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hipslake.errors import (
    CatalogNotFoundError,
    FilterError,
    NotWritableError,
    RegionError,
    SchemaMismatchError,
    SpecError,
    VerificationError,
    VersionNotFoundError,
)
from hipslake.steps.hips import hips_versions
from hipslake.steps.hips import run as hips_run
from hipslake.steps.hips.request import HipsReport
from hipslake.steps.run import now_utc
from hipslake.steps.upkeep.old_runs import old_runs
from hipslake.storage.folder import Storage
from pydantic import ValidationError

from tests.steps.hips.hips_reader import read_hips, read_properties
from tests.steps.hips.making_hips import asked, published, run
from tests.steps.in_process import ingest, start, write_spec


@pytest.fixture
def output(root: Path, warehouse: Path) -> Path:
    """Where the HiPS of the catalog `stars`, which has two versions, come to lie."""
    return warehouse / "exports" / "hips" / "stars"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_versions_lie_side_by_side_and_the_newest_is_named(warehouse: Path, output: Path) -> None:
    new = run(asked(warehouse, "a"))
    assert (new.version, new.rows_out, new.unchanged, new.removed) == (2, 3000, False, ())
    assert Path(new.output).parent == output
    assert Path(new.output).name.startswith("v2-")
    assert (output / "current").resolve() == Path(new.output)
    old = run(asked(warehouse, "b", version=1, service_url="https://example.org/hips/stars/"))
    assert old.version == 1
    assert (output / "current").resolve() == Path(new.output)  # an older version does not take its place
    listed = read_properties(output / "hipslist")
    assert listed.pop("hips_service_url") == f"https://example.org/hips/stars/{Path(new.output).name}"
    assert listed == read_properties(output / "current" / "properties")
    assert names(output) == sorted(["current", "hipslist", Path(old.output).name, Path(new.output).name])
    for report in (new, old):
        assert len(read_hips(Path(report.output)).rows) == 3000
    assert read_properties(output / "current" / "properties")["obs_title"] == "stars made up for tests"
    assert not Storage.at(asked(warehouse, "a").run_uri).list("hips")


def test_what_stands_already_is_not_made_again(warehouse: Path, output: Path) -> None:
    first = run(asked(warehouse, "a"))
    stamps = {path: path.stat().st_mtime_ns for path in Path(first.output).rglob("*")}
    again = run(asked(warehouse, "b"))
    assert again.unchanged
    assert again.model_dump(
        include={"output", "rows_in", "files", "bytes", "tiles", "deepest"}
    ) == first.model_dump(include={"output", "rows_in", "files", "bytes", "tiles", "deepest"})
    assert stamps == {path: path.stat().st_mtime_ns for path in Path(first.output).rglob("*")}
    other = run(asked(warehouse, "c", order_by="mag"))  # takes the place of the other one of this version
    assert not other.unchanged
    assert other.removed == (Path(first.output).name,)
    assert names(output) == sorted(["current", "hipslist", Path(other.output).name])
    assert not run(asked(warehouse, "d")).unchanged


def test_so_many_versions_stay(warehouse: Path, output: Path, spec_file: Path, tmp_path: Path) -> None:
    made = [Path(run(asked(warehouse, f"{number}", version=number)).output).name for number in (1, 2)]
    write_spec(spec_file, f"{tmp_path}/landing/*.parquet", threshold="150 rows")
    ingest(start(warehouse, spec_file, "third"))
    last = run(asked(warehouse, "3"))
    assert last.removed == (made[0],)
    assert names(output) == sorted(["current", "hipslist", made[1], Path(last.output).name])
    alone = run(asked(warehouse, "4", keep_versions=1))
    assert alone.unchanged
    assert alone.removed == (made[1],)
    assert names(output) == sorted(["current", "hipslist", Path(last.output).name])


def test_a_run_that_failed_leaves_nothing_and_its_retry_makes_it_anew(
    warehouse: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coverage = hips_run.moc_fits

    def broken(*given: Any) -> bytes:
        raise ConnectionError("gone")

    monkeypatch.setattr(hips_run, "moc_fits", broken)
    with pytest.raises(ConnectionError, match="gone"):
        run(asked(warehouse))
    assert [path for path in output.rglob("*") if path.is_file()] == []
    assert not Storage.at(asked(warehouse).run_uri).list("hips")
    monkeypatch.setattr(hips_run, "moc_fits", coverage)
    report = run(asked(warehouse))
    assert len(read_hips(Path(report.output)).rows) == 3000


def test_a_killed_run_is_taken_up_by_its_retry_and_swept_when_it_has_none(
    warehouse: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hips_run.NewFolder, "give_up", lambda self: None)
    for moment in ("finish", "begin"):
        with monkeypatch.context() as killed:
            original = getattr(hips_run.NewFolder, moment)

            def dies(self: Any, *given: Any, original: Any = original) -> None:
                original(self, *given)
                raise KeyboardInterrupt

            killed.setattr(hips_run.NewFolder, moment, dies)
            with pytest.raises(KeyboardInterrupt):
                run(asked(warehouse, moment, order_by="mag" if moment == "begin" else None))
    (finished,) = (name for name in names(output) if name.startswith("v2-"))
    staged = Path(
        hips_run.NewFolder(str(output / "v2-00000000"), "x")._parent.uri(".v2-00000000.12345678.tmp")
    )
    staged.mkdir()
    report = run(asked(warehouse, "finish"))
    assert report.unchanged  # it died between the folder and its report
    assert Path(report.output).name == finished
    assert staged.exists()
    long_ago = time.time() - timedelta(days=8).total_seconds()
    os.utime(staged, (long_ago, long_ago))
    assert run(asked(warehouse, "later")).removed == (staged.name,)
    assert not staged.exists()
    assert len(read_hips(output / "current").rows) == 3000


def test_pointers_never_name_what_another_run_takes_away(
    warehouse: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While this run writes the list, another one publishes the same version and takes this one's away."""
    made: list[HipsReport] = []
    listing = hips_versions.hips_list

    def meanwhile(fields: dict[str, str], service_url: str) -> str:
        if not made:
            made.append(HipsReport())
            later = now_utc() + timedelta(hours=1)
            made[0] = run(asked(warehouse, "second", order_by="mag", created=later))
        return listing(fields, service_url)

    monkeypatch.setattr(hips_versions, "hips_list", meanwhile)
    first = run(asked(warehouse, "first"))
    (second,) = made
    assert second.removed == (Path(first.output).name,)
    assert first.removed == ()
    assert names(output) == sorted(["current", "hipslist", Path(second.output).name])
    assert (output / "current").resolve() == Path(second.output)
    assert read_properties(output / "hipslist")["hips_service_url"].endswith(Path(second.output).name)


def test_what_others_deleted_is_told(warehouse: Path, output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = run(asked(warehouse, "a"))
    (Path(made.output) / "properties").unlink()
    with pytest.raises(VerificationError, match="has lost files; delete it, and run again"):
        run(asked(warehouse, "b"))
    shutil.rmtree(made.output)
    assert not run(asked(warehouse, "c")).unchanged  # the link and the list of ours led to nothing
    monkeypatch.setattr(hips_versions, "finished_hips", lambda target: [])
    with pytest.raises(NotWritableError, match="was deleted while it was published"):
        run(asked(warehouse, "d", order_by="mag"))


def test_a_missing_leaf_is_told_and_nothing_is_left(root: Path, warehouse: Path, output: Path) -> None:
    leaf = next((root / "current").resolve().rglob("Npix=*.parquet"))
    leaf.unlink()
    with pytest.raises(VerificationError, match=leaf.name):
        run(asked(warehouse))
    assert not [path for path in output.rglob("*") if path.is_file()]


def test_a_vacuum_does_not_take_a_version_that_is_read(
    root: Path, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hipslake import Catalog

    make = hips_run._make

    def meanwhile(*given: Any) -> Any:
        outcome = Catalog.open(root).vacuum(keep_versions=1, keep_days=0, dry_run=False)
        assert 1 in outcome.kept
        return make(*given)

    monkeypatch.setattr(hips_run, "_make", meanwhile)
    assert run(asked(warehouse, version=1)).rows_out == 3000


def test_regions_filters_and_columns(root: Path, warehouse: Path) -> None:
    from hipslake import Catalog

    wanted = {"region": "cone 80 30 3deg", "filters": "mag < 13 and id > 100"}
    report = run(
        asked(
            warehouse,
            columns=("mag",),
            coverage_order=6,
            creator_did="ivo://survey.org/P/x",
            public=True,
            **wanted,
        )
    )
    hips = read_hips(Path(report.output))
    expected = Catalog.open(root).read(["mag"], wanted["filters"], region=wanted["region"])["mag"]
    assert 0 < len(expected) < 1000
    assert sorted(map(float, hips.column("mag"))) == sorted(expected.to_pylist())
    assert [field.name for field in hips.fields] == ["ra", "dec", "mag"]
    assert hips.moc.max_order == 6
    assert hips.properties["creator_did"] == "ivo://survey.org/P/x"
    assert hips.properties["hips_status"].startswith("public")
    view = {name: float(hips.properties[f"hips_initial_{name}"]) for name in ("ra", "dec", "fov")}
    assert abs(view["ra"] - 80) < 10
    assert abs(view["dec"] - 30) < 10


def test_no_row_is_a_hips_without_tiles(root: Path, warehouse: Path) -> None:
    for number, nothing in enumerate(({"filters": "id < 0"}, {"region": "moc 0/"})):
        report = run(asked(warehouse, f"{number}", output=f"{number}", order_by="mag", **nothing))
        assert (report.rows_out, report.tiles) == (0, 0)
        hips = read_hips(Path(report.output))
        assert (hips.tiles, [tile.total for tile in hips.allsky.values()]) == ({}, [0, 0])
        assert hips.moc.empty()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"catalog": "starz"}, CatalogNotFoundError, "nothing is published"),
        ({"version": 7}, VersionNotFoundError, "version 7"),
        ({"region": "cone 1 2"}, RegionError, "write cone"),
        ({"region": "moc /nowhere/x.fits"}, RegionError, "forms do not read"),
        ({"filters": "mga < 3"}, FilterError, "did you mean 'mag'"),
        ({"order_by": "mga"}, SchemaMismatchError, "did you mean 'mag'"),
        ({"columns": ("idd",)}, SchemaMismatchError, "did you mean 'id'"),
        ({"columns": ("id", "id")}, SchemaMismatchError, "asked for twice"),
        ({"output": "../catalogs/stars/hips"}, SpecError, "lies in the warehouse"),
        ({"output": "https://example.org/hips"}, NotWritableError, "through a web server"),
    ],
)
def test_what_cannot_be_made_is_told_before_anything_is_written(
    root: Path, warehouse: Path, fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(asked(warehouse, **fields))
    assert not (warehouse / "exports").exists()


@pytest.mark.parametrize(
    "fields",
    [
        {"tile_rows": 0},
        {"allsky_rows": 10**9},
        {"deepest_order": 2},
        {"deepest_order": 30},
        {"coverage_order": 30},
        {"keep_versions": 0},
        {"creator_did": "stars"},
        {"creator_did": "ivo://x y"},
        {"catalog": "../stars"},
    ],
)
def test_options_have_bounds(warehouse: Path, fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        asked(warehouse, **fields)


def test_columns_without_a_form_are_refused_by_name_and_else_left_out(tmp_path: Path) -> None:
    odd = {"list": [[1], [2]], "raw": [b"a", b"b"]}
    published(
        tmp_path, pa.table({"id": [1, 2], "ra": [1.0, 2.0], "dec": [3.0, 4.0], **odd, "name": ["a", "b"]})
    )
    assert run(asked(tmp_path)).left_out == ("list", "raw")
    for column in ("list", "raw"):
        with pytest.raises(SchemaMismatchError, match=f"no form for '{column}'.*leave it out"):
            run(asked(tmp_path, "named", columns=(column,)))
    with pytest.raises(SchemaMismatchError, match="ordered by string; order them by numbers or times"):
        run(asked(tmp_path, "by name", order_by="name"))


def test_names_that_no_tile_can_have(tmp_path: Path) -> None:
    table = pa.table({"#ra": [1.0, 2.0], "dec": [3.0, 4.0], "a\tb": [1, 2]})
    named = table.rename_columns(["ra", "dec", "a\tb"])
    published(tmp_path / "a", named)
    with pytest.raises(SchemaMismatchError, match=r"no control characters: 'a\\tb'"):
        run(asked(tmp_path / "a"))
    assert [
        field.name for field in read_hips(Path(run(asked(tmp_path / "a", columns=())).output)).fields
    ] == ["ra", "dec"]


def test_another_catalogs_hips_are_not_replaced(root: Path, warehouse: Path, tmp_path: Path) -> None:
    run(asked(warehouse, output=str(tmp_path / "out")))
    published(tmp_path / "other", pa.table({"ra": [1.0], "dec": [2.0]}))
    with pytest.raises(SpecError, match=r"holds the HiPS of .*warehouse/catalogs/stars; give another output"):
        run(asked(tmp_path / "other", output=str(tmp_path / "out")))


def test_what_others_have_at_the_output_stays(root: Path, warehouse: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "v1-00000000").mkdir(parents=True)
    (out / "v1-00000000" / "precious").write_text("x")
    (out / "v1-11111111").mkdir()
    (out / "v1-11111111" / "hips.json").write_text("{")
    (out / "notes.txt").write_text("x")
    report = run(asked(warehouse, output=str(out), keep_versions=1))
    assert report.removed == ()
    assert names(out) == sorted(
        ["current", "hipslist", "notes.txt", "v1-00000000", "v1-11111111", Path(report.output).name]
    )


def test_what_has_the_name_of_a_pointer_is_not_replaced(root: Path, warehouse: Path, output: Path) -> None:
    (output / "current").mkdir(parents=True)
    (output / "current" / "precious").write_text("x")
    with pytest.raises(NotWritableError, match="current is no link of ours; give another output"):
        run(asked(warehouse))
    assert (output / "current" / "precious").read_text() == "x"
    other = output.with_name("other")
    other.mkdir()
    (other / "hipslist").write_text("creator_did = ivo://CDS/P/2MASS/J\n")
    with pytest.raises(NotWritableError, match="hipslist is a list of others; give another output"):
        run(asked(warehouse, output=str(other)))
    assert names(other) == ["hipslist"]


def test_old_run_folders_of_hips_are_found(root: Path, warehouse: Path) -> None:
    run(asked(warehouse))
    folder = "_runs/catalog_hips__stars/first"
    assert folder in old_runs(str(warehouse), "stars", now_utc() + timedelta(days=1))
    assert folder not in old_runs(str(warehouse), "stars", now_utc() - timedelta(days=1))
