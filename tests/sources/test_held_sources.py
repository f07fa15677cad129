"""Source files in a store of which parts are held: fetched once, and refused where they are others by now."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from concurrent.futures import wait
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hipslake.errors import InputError
from hipslake.sources import held_sources, open_source
from hipslake.sources.held_sources import begin_checks, holding_sources
from hipslake.specs.source_spec import SourceSpec
from hipslake.storage.folder import Storage
from hipslake.storage.held_file import HeldFile
from hipslake.storage.objects import ObjectFiles

ROWS = pa.table({"id": range(5000), "mag": [float(number % 7) for number in range(5000)]})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many ranges are read of each file."""
    found: Counter[str] = Counter()
    for name in ("read_range", "range_buffer"):
        plain = getattr(ObjectFiles, name)

        def counted(files: ObjectFiles, uri: str, start: int, stop: int, _plain: object = plain) -> object:
            found[uri.rpartition("/")[2]] += 1
            return _plain(files, uri, start, stop)  # type: ignore[operator]

        monkeypatch.setattr(ObjectFiles, name, counted)
    return found


def put(folder: Storage, name: str, rows: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, row_group_size=1000, compression="none", use_dictionary=False)
    folder.write(name, sink.getvalue())


def read(uri: str) -> pa.Table:
    """All rows, by what lists, cuts and reads as the steps do."""
    source = open_source(SourceSpec.model_validate({"uri": f"{uri}/*.parquet", "format": "parquet"}))
    files = source.list_files()
    return rows_of(source, files)


def rows_of(source: object, files: list[object]) -> pa.Table:
    schema = source.schema(files)  # type: ignore[attr-defined]
    splits = source.splits(files, 20_000)  # type: ignore[attr-defined]
    batches = [batch for split in splits for batch in source.read(split, schema)]  # type: ignore[attr-defined]
    return pa.Table.from_batches(batches, schema)


def test_what_was_fetched_is_not_fetched_again(asked: Counter[str]) -> None:
    folder = Storage.at(f"memory://{uuid.uuid4().hex}")
    put(folder, "a.parquet", ROWS)
    put(folder, "b.parquet", ROWS.slice(0, 2000))
    expected = pa.concat_tables([ROWS, ROWS.slice(0, 2000)])
    assert read(folder.uri()).equals(expected)
    alone = asked.total()
    asked.clear()
    with holding_sources():
        assert read(folder.uri()).equals(expected)
        assert 0 < asked.total() <= alone
        asked.clear()
        assert read(folder.uri()).equals(expected)
        found: list[pa.Table] = []
        thread = threading.Thread(target=lambda: found.append(read(folder.uri())))
        thread.start()
        thread.join()
        assert found[0].equals(expected)
        assert asked.total() == 0
    assert read(folder.uri()).equals(expected)
    assert asked.total() == alone


def test_a_file_that_was_replaced_is_refused_though_it_is_held() -> None:
    folder = Storage.at(f"memory://{uuid.uuid4().hex}")
    put(folder, "a.parquet", ROWS)
    source = open_source(SourceSpec.model_validate({"uri": f"{folder.uri()}/*.parquet", "format": "parquet"}))
    files = source.list_files()
    with holding_sources():
        assert rows_of(source, [*files]).equals(ROWS)
        put(folder, "a.parquet", ROWS.slice(0, 4000))
        with pytest.raises(InputError, match="changed after the run listed it"):
            rows_of(source, [*files])
        assert read(folder.uri()).equals(ROWS.slice(0, 4000))  # as it is listed now


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_look_that_was_begun_counts_once(when: str) -> None:
    folder = Storage.at(f"memory://{uuid.uuid4().hex}")
    put(folder, "a.parquet", ROWS)
    source = open_source(SourceSpec.model_validate({"uri": f"{folder.uri()}/*.parquet", "format": "parquet"}))
    files = source.list_files()
    with holding_sources():
        assert rows_of(source, [*files]).equals(ROWS)
        if when == "before":
            put(folder, "a.parquet", ROWS.slice(0, 4000))
        begin_checks(files)
        if when == "after":
            assert rows_of(source, [*files]).equals(ROWS)
            put(folder, "a.parquet", ROWS.slice(0, 4000))
        with pytest.raises(InputError, match="changed after the run listed it"):
            rows_of(source, [*files])


def test_of_large_files_nothing_is_held(monkeypatch: pytest.MonkeyPatch, asked: Counter[str]) -> None:
    folder = Storage.at(f"memory://{uuid.uuid4().hex}")
    put(folder, "a.parquet", ROWS)
    put(folder, "b.parquet", ROWS)
    size = folder.entry("a.parquet").size
    monkeypatch.setattr(held_sources, "MOST_HELD", size)
    with holding_sources():
        read(folder.uri())
        asked.clear()
        read(folder.uri())
        assert asked["a.parquet"] == 0
        assert asked["b.parquet"] > 0


def test_a_look_that_was_begun_does_not_count_for_what_is_fetched_later() -> None:
    folder = Storage.at(f"memory://{uuid.uuid4().hex}")
    put(folder, "a.parquet", ROWS)
    source = open_source(SourceSpec.model_validate({"uri": f"{folder.uri()}/*.parquet", "format": "parquet"}))
    files = source.list_files()
    schema = source.schema(files)
    with holding_sources():
        for split in source.splits(files):  # of which a part is held then
            assert sum(batch.num_rows for batch in source.read(split, schema, ["id"])) == ROWS.num_rows
        begin_checks(files)
        wait([look for held in held_sources._holding for look in held.checks.values()])
        put(folder, "a.parquet", ROWS.set_column(1, "mag", pa.array([99.0] * ROWS.num_rows)))
        assert folder.entry("a.parquet").size == files[0].size
        with pytest.raises(InputError, match="changed after the run listed it"):
            rows_of(source, files)


def csv_of(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pc.write_csv(rows, sink)
    return sink.getvalue().to_pybytes()


def parquet_of(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, row_group_size=1000, compression="none", use_dictionary=False)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("held", [True, False], ids=["held", "not_held"])
@pytest.mark.parametrize(("place", "form"), [("memory", "csv"), ("disk", "csv"), ("disk", "parquet")])
def test_a_file_that_is_replaced_while_it_is_read_is_refused(
    tmp_path: Path, place: str, form: str, held: bool
) -> None:
    folder = Storage.at(f"memory://{uuid.uuid4().hex}" if place == "memory" else str(tmp_path))
    written = {"parquet": parquet_of, "csv": csv_of}[form]
    (one, other) = (written(ROWS.set_column(1, "mag", pa.array([mag] * 5000))) for mag in (1.5, 2.5))
    assert len(one) == len(other)
    folder.write(f"a.{form}", one)
    source = open_source(SourceSpec.model_validate({"uri": f"{folder.uri()}/*.{form}", "format": form}))
    files = source.list_files()
    schema = source.peek(files)
    with holding_sources() if held else nullcontext():
        (split,) = source.splits(files)
        read = source.read(split, schema, batch_rows=1000)
        found = [next(read)]
        folder.write(f"a.{form}", other)
        with pytest.raises(InputError, match="changed after the run listed it"):
            found += read
    assert found[0]["mag"].to_pylist() == [1.5] * found[0].num_rows


@pytest.mark.parametrize(
    "fetched", [[(0, 900), (300, 400)], [(300, 400), (0, 900)], [(0, 500), (300, 400), (400, 900)]]
)
def test_what_a_part_of_it_is_held_of_besides_is_not_fetched_again(fetched: list[tuple[int, int]]) -> None:
    """Two readers that fetch at the same time may fetch a range, and a part of it."""
    folder, data = Storage.at(f"memory://{uuid.uuid4().hex}"), bytes(number % 251 for number in range(1000))
    folder.write("a", data)
    held = HeldFile(folder, "a", len(data))
    for each in fetched:
        held.again().fetch(*each)
    assert held.missing([(0, 900)], 1) == []
    assert held.bytes_held <= 1000
    for start, stop in [(0, 900), (350, 950), (100, 1000)]:
        held.seek(start)
        assert held.read(stop - start) == data[start:stop]
