"""Links in the landing: none has a task read what who brings files may not; pipes are not waited for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from astropy.table import Table
from hipslake.cube.store.row_sources import ParquetRows
from hipslake.errors import HipslakeError, InputError, NotReadableError, SourceNotFoundError
from hipslake.sources import open_source
from hipslake.sources.file_listing import list_files, located
from hipslake.specs.source_spec import SourceSpec
from hipslake.storage.folder import Storage

SECRET = "the-private-value"
ENDINGS = {"parquet": "parquet", "csv": "csv", "fits": "fits", "votable": "xml", "ecsv": "ecsv"}


@pytest.fixture(autouse=True)
def landing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The landing, with a folder of one source; `private` lies beside it."""
    folder = tmp_path / "landing" / "stars"
    folder.mkdir(parents=True)
    (tmp_path / "private").mkdir()
    monkeypatch.setenv("HIPSLAKE_LANDING", str(tmp_path / "landing"))
    monkeypatch.delenv("HIPSLAKE_INPUTS", raising=False)
    return folder


def write_rows(path: Path, kind: str) -> Path:
    """Write a sound file of a format."""
    rows = {"name": [SECRET] * 3, "ra": [1.0, 2.0, 3.0], "dec": [1.0, 2.0, 3.0]}
    if kind == "parquet":
        pq.write_table(pa.table(rows), path)
    else:
        formats = {"csv": "ascii.csv", "ecsv": "ascii.ecsv"}
        Table(rows).write(path, format=formats.get(kind, kind))
    return path


def read_all(folder: Path, kind: str, pattern: str = "*") -> list[pa.RecordBatch]:
    """List the files of a source and read them, as an ingest does."""
    source = open_source(SourceSpec(uri=f"{folder}/{pattern}", format=kind))
    files = source.list_files()
    splits = source.splits(files)
    schema = source.schema(files) or source.unify([(s.file.uri, source.infer(s)) for s in splits])
    return [batch for split in splits for batch in source.read(split, schema)]


@pytest.mark.parametrize("kind", ENDINGS)
@pytest.mark.parametrize("sound", [True, False])
def test_a_link_that_leads_out_is_refused_and_nothing_of_its_target_is_quoted(
    landing: Path, tmp_path: Path, kind: str, sound: bool
) -> None:
    target = tmp_path / "private" / f"rows.{ENDINGS[kind]}"
    if sound:
        write_rows(target, kind)
    else:
        target.write_text(f"{SECRET},{SECRET}\n{SECRET}\n" * 9)
    link = landing / f"night.{ENDINGS[kind]}"
    link.symlink_to(target)
    with pytest.raises(InputError, match=rf"{link} is a link, or lies behind one.*HIPSLAKE_INPUTS") as found:
        read_all(landing, kind)
    assert SECRET not in str(found.value)
    assert str(target) not in str(found.value)


def through_the_folder(landing: Path, target: Path) -> str:
    (landing / "deeper").symlink_to(target.parent)
    return f"{landing}/deeper/*.parquet"


def in_place_of_the_folder(landing: Path, target: Path) -> str:
    landing.rmdir()
    landing.symlink_to(target.parent)
    return f"{landing}/*.parquet"


def by_a_chain(landing: Path, target: Path) -> str:
    (landing / "b.parquet").symlink_to(target)
    (landing / "a.parquet").symlink_to("b.parquet")
    return f"{landing}/a.parquet"


def below_two_stars(landing: Path, target: Path) -> str:
    (landing / "deeper").symlink_to(target.parent)
    return f"{landing}/**/*.parquet"


def by_another_name_of_the_landing(landing: Path, target: Path) -> str:
    alias = landing.parent.with_name("alias")
    alias.symlink_to(landing.parent)
    in_place_of_the_folder(landing, target)
    return f"{alias}/stars/*.parquet"


WAYS = [
    through_the_folder, in_place_of_the_folder, by_a_chain, below_two_stars, by_another_name_of_the_landing,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_no_way_through_links_leads_out(
    landing: Path, tmp_path: Path, way: Callable[[Path, Path], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = way(landing, write_rows(tmp_path / "private" / "rows.parquet", "parquet"))
    with pytest.raises(InputError, match="is a link, or lies behind one"):
        list_files(uri)
    with pytest.raises(InputError, match="is a link, or lies behind one"):
        ParquetRows.at(uri)
    monkeypatch.setenv("HIPSLAKE_INPUTS", f"{tmp_path}/elsewhere {tmp_path}/private")
    assert len(list_files(uri).files) == 1
    assert ParquetRows.at(uri).parts == 1


def test_links_within_the_landing_are_followed(landing: Path) -> None:
    other = landing.with_name("other")
    other.mkdir()
    write_rows(other / "rows.parquet", "parquet")
    (landing / "night.parquet").symlink_to(other / "rows.parquet")
    assert sum(batch.num_rows for batch in read_all(landing, "parquet")) == 3


def test_a_folder_that_a_spec_names_elsewhere_may_itself_be_a_link(tmp_path: Path) -> None:
    write_rows(tmp_path / "private" / "rows.parquet", "parquet")
    (tmp_path / "survey").symlink_to(tmp_path / "private")
    (tmp_path / "private" / "night.parquet").symlink_to("rows.parquet")
    assert len(list_files(f"{tmp_path}/survey/*.parquet").files) == 2
    (tmp_path / "private" / "out.parquet").symlink_to(write_rows(tmp_path / "rows.parquet", "parquet"))
    with pytest.raises(InputError, match=r"out\.parquet is a link"):
        list_files(f"{tmp_path}/survey/*.parquet")


def test_a_file_that_becomes_a_link_after_it_was_listed_is_not_read(landing: Path, tmp_path: Path) -> None:
    path = write_rows(landing / "night.parquet", "parquet")
    target = write_rows(tmp_path / "private" / "rows.parquet", "parquet")
    times = target.stat().st_mtime_ns
    os.utime(path, ns=(times, times))
    [file] = list_files(f"{landing}/*.parquet").files
    path.unlink()
    path.symlink_to(target)  # of the same size and time
    with pytest.raises(InputError, match="is a link"):
        located(file)
    located(replace(file, place=None))  # as an older library listed it
    with pytest.raises(InputError, match="is a link"):
        read_all(landing, "parquet")


def test_the_parts_of_a_cubes_files_are_looked_at_when_they_are_read(landing: Path, tmp_path: Path) -> None:
    path = write_rows(landing / "night.parquet", "parquet")
    rows = ParquetRows.at(f"{landing}/*.parquet")
    path.unlink()
    path.symlink_to(write_rows(tmp_path / "private" / "rows.parquet", "parquet"))
    with pytest.raises(InputError, match="is a link"):
        list(rows.read(0, ["ra"]))


def test_links_in_circles_end_and_give_no_file_twice(landing: Path) -> None:
    for name in ("a", "b", "c"):
        (landing / name).mkdir()
        for link in ("x", "y"):
            (landing / name / link).symlink_to("..")
    write_rows(landing / "c" / "rows.parquet", "parquet")
    (landing / "again").symlink_to("c")
    assert [file.uri for file in list_files(f"{landing}/**/*.parquet").files] == [f"{landing}/c/rows.parquet"]


def names_of(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if not path.is_dir():
            yield path.relative_to(folder).as_posix()


@pytest.mark.parametrize("pattern", ["**", "**/*", "**/*.csv", "a/**", "a/**/b/*", "**/b/**/*.csv", "*/**/*"])
def test_two_stars_find_what_pathlib_finds(landing: Path, pattern: str) -> None:
    for name in ("1.csv", "a/2.csv", "a/b/3.csv", "a/b/c/4.csv", "b/5.txt", "b/b/6.csv"):
        (landing / name).parent.mkdir(parents=True, exist_ok=True)
        (landing / name).write_text("x\n")
    pathlibs = f"{pattern}/*" if pattern.endswith("**") else pattern
    matched = {path.relative_to(landing).as_posix() for path in landing.glob(pathlibs)}
    expected = [name for name in names_of(landing) if name in matched]
    assert [entry.path for entry in Storage.at(landing).glob(pattern)] == expected
    assert expected


@pytest.mark.parametrize("kind", ENDINGS)
def test_a_pipe_is_passed_over_and_told(landing: Path, kind: str) -> None:
    pipe = landing / f"night.{ENDINGS[kind]}"
    os.mkfifo(pipe)
    with pytest.raises(SourceNotFoundError, match=rf"but hidden files, folders or pipes \({pipe}\)"):
        read_all(landing, kind)
    write_rows(landing / f"other.{ENDINGS[kind]}", kind)
    assert list_files(f"{landing}/*").passed_over == (str(pipe),)
    assert sum(batch.num_rows for batch in read_all(landing, kind)) == 3


@pytest.mark.parametrize("kind", ENDINGS)
def test_a_file_that_becomes_a_pipe_is_not_waited_for(landing: Path, kind: str) -> None:
    path = write_rows(landing / f"night.{ENDINGS[kind]}", kind)
    source = open_source(SourceSpec(uri=str(path), format=kind))
    files = source.list_files()
    [split] = source.splits(files)
    schema = source.schema(files) or source.unify([(path.name, source.infer(split))])
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(HipslakeError, match=r"was changed after|is no file but a pipe"):
        list(source.read(split, schema))


def test_no_door_of_the_storage_opens_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    storage = Storage.at(tmp_path)
    for door in (storage.open, storage.read, storage.sha256, storage.arrow_file):
        with pytest.raises(NotReadableError, match="is no file but a pipe"):
            door("pipe")  # type: ignore[operator]
    with pytest.raises(NotReadableError, match="is no file but a pipe"):
        storage.read_range("pipe", 0, 4)
    with pytest.raises(FileNotFoundError):
        storage.read("nothing")


def test_links_that_lead_nowhere_are_told(landing: Path) -> None:
    write_rows(landing / "rows.parquet", "parquet")
    (landing / "gone.parquet").symlink_to("nothing")
    (landing / "circle.parquet").symlink_to("circle.parquet")
    found = list_files(f"{landing}/*.parquet")
    assert [file.uri for file in found.files] == [f"{landing}/rows.parquet"]
    assert found.passed_over == (f"{landing}/circle.parquet", f"{landing}/gone.parquet")
