"""Of several exports to one new output one has it, and what it wrote stays; the others are told."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import NotWritableError
from hipslake.exports.export_folder import MANIFEST, UNFINISHED, NewFolder
from hipslake.exports.provenance import Provenance
from hipslake.exports.writers import ParquetTables, write_export
from hipslake.specs.export_formats import ExportFormat
from hipslake.steps.export import run as export_run
from hipslake.steps.export.request import ExportReport, ExportRequest
from hipslake.steps.report import perform
from hipslake.steps.run import run_uri
from hipslake.storage import atomic
from hipslake.storage.access import StoreAccess, asked_as
from hipslake.storage.folder import Storage

from tests.catalog.little import sky
from tests.catalog.matching import published, rows_at
from tests.stores.proxy import running_proxy
from tests.stores.s3_server import S3Server

EXPORTERS = 8
TABLE = pa.table({"id": [1, 2, 3]})
ORIGIN = Provenance("stars", 1)


def asked(warehouse: str, run_id: str, output: str, **fields: Any) -> ExportRequest:
    return ExportRequest.model_validate(
        {
            "run_uri": run_uri(warehouse, "catalog_export", run_id),
            "warehouse": warehouse,
            "catalog": "stars",
            "output": output,
            **fields,
        }
    )


def run(request: ExportRequest) -> ExportReport:
    return perform(lambda given: export_run.run(given, ThisProcess()), request, ExportReport)


@pytest.fixture
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("warehouse"))


@pytest.fixture
def catalog(warehouse: str) -> Catalog:
    return published(f"{warehouse}/catalogs", "stars", rows_at(*sky(300)), threshold="100 rows")


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out.fits"])
def test_of_exports_at_once_exactly_one_succeeds(
    catalog: Catalog, storage: Storage, warehouse: str, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    if storage.root.startswith("memory"):
        pytest.skip("the store of tests looks first, and writes then")
    together = threading.Barrier(EXPORTERS)

    def attempt(number: int) -> str:
        request = asked(warehouse, f"run-{number}", storage.uri(name), filters=f"id >= {number}")
        together.wait()
        try:
            return str(run(request).rows_out)
        except NotWritableError as error:
            return str(error)

    with ThreadPoolExecutor(EXPORTERS) as pool:
        told = list(pool.map(attempt, range(EXPORTERS)))
    (winner,) = [number for number, text in enumerate(told) if text.isdigit()]
    others = [text for number, text in enumerate(told) if number != winner]
    assert all(f"{storage.uri(name)} exists" in text for text in others)
    alone = tmp_path_factory.mktemp("alone") / f"alone.{name.rpartition('.')[2]}"
    catalog.export(alone, filters=f"id >= {winner}")
    assert storage.read(name) == alone.read_bytes()
    assert [entry.path for entry in storage.list()] == [name]
    assert storage.unfinished() == []


def test_one_that_is_quicker_in_mid_export_is_not_replaced_also_not_by_a_retry(
    catalog: Catalog, storage: Storage, warehouse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, quick = (
        asked(warehouse, name, storage.uri("out.parquet"), filters=f"id >= {at}")
        for at, name in enumerate(("slow", "quick"))
    )
    write = ParquetTables.write

    def overtaken(self: Any, file: Any, schema: Any, tables: Any, origin: Provenance) -> int:
        monkeypatch.setattr(ParquetTables, "write", write)
        assert run(quick).rows_out == 299
        return write(self, file, schema, tables, origin)

    monkeypatch.setattr(ParquetTables, "write", overtaken)
    with pytest.raises(NotWritableError, match=r"out\.parquet exists by now; give another URI"):
        run(slow)
    standing = storage.read("out.parquet")
    with pytest.raises(NotWritableError, match=r"out\.parquet exists; give another URI, or overwrite it"):
        run(slow)
    assert storage.read("out.parquet") == standing
    assert run(slow.model_copy(update={"overwrite": True})).rows_out == 300


def test_the_library_does_not_replace_what_came_meanwhile(
    catalog: Catalog, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = ParquetTables.write

    def overtaken(self: Any, file: Any, *args: Any) -> int:
        storage.write("out.parquet", b"of others")
        return write(self, file, *args)

    monkeypatch.setattr(ParquetTables, "write", overtaken)
    with pytest.raises(NotWritableError, match="exists by now"):
        catalog.export(storage.uri("out.parquet"))
    assert storage.read("out.parquet") == b"of others"
    catalog.export(storage.uri("out.parquet"), overwrite=True)
    assert storage.read("out.parquet") != b"of others"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_attempt_that_died_after_the_file_appeared_is_known_again(
    catalog: Catalog, storage: Storage, warehouse: str, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    if storage.root.startswith("memory"):
        pytest.skip("keeps no words with an object: the retry is refused, and `overwrite` is the mend")
    request = asked(warehouse, "dying", storage.uri(f"out.{ending}"))

    def die(**_: Any) -> ExportReport:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(export_run, "ExportReport", die)
        with pytest.raises(KeyboardInterrupt):
            run(request)
    assert storage.is_file(f"out.{ending}")
    with pytest.raises(NotWritableError):
        run(asked(warehouse, "another", storage.uri(f"out.{ending}")))
    assert run(request).rows_out == 300


def test_without_hard_links_one_succeeds_too(
    catalog: Catalog, warehouse: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: Any) -> None:
        raise PermissionError(1, "no links here")

    monkeypatch.setattr(atomic.os, "link", no_links)
    assert run(asked(warehouse, "first", str(tmp_path / "out.csv"))).rows_out == 300
    standing = (tmp_path / "out.csv").read_bytes()
    with pytest.raises(NotWritableError, match="exists by now"):
        write_export(
            str(tmp_path / "out.csv"), TABLE.schema, [TABLE], ExportFormat.CSV, ORIGIN, overwrite=False
        )
    assert (tmp_path / "out.csv").read_bytes() == standing


def test_an_answer_that_a_store_lost_is_no_other_export(s3_server: S3Server) -> None:
    bucket = f"s3://{s3_server.make_bucket()}"
    with running_proxy(s3_server.endpoint) as proxy, asked_as(StoreAccess(endpoint=proxy.endpoint)):
        lost = proxy.drop_answers("PUT", r"out\.csv", times=1)
        done = write_export(
            f"{bucket}/out.csv", TABLE.schema, [TABLE], ExportFormat.CSV, ORIGIN, overwrite=False
        )
        assert (done.rows, lost.met) == (3, 1)
        with pytest.raises(NotWritableError, match="exists by now"):
            write_export(
                f"{bucket}/out.csv", TABLE.schema, [TABLE], ExportFormat.CSV, ORIGIN, overwrite=False
            )


def finish(folder: NewFolder, name: str) -> None:
    folder.files.write(name, b"rows")
    folder.finish({"what": name})


def overtaken_at(step: str, theirs: NewFolder, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A step of `Storage` before which another query ends."""

    def late(self: Storage, *paths: str) -> Any:
        monkeypatch.undo()
        theirs.begin()
        finish(theirs, "their.csv")
        return getattr(Storage, step)(self, *paths)

    return late


def test_a_folder_that_came_at_the_last_moment_is_not_removed(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two queries of cubes to one new folder: whoever ends first has it."""
    mine, theirs = NewFolder(storage.uri("out"), "mine"), NewFolder(storage.uri("out"), "theirs")
    if storage.is_local:
        mine.begin()
        for step in ("delete_tree", "move_folder"):  # whichever comes first
            monkeypatch.setattr(Storage, step, overtaken_at(step, theirs, monkeypatch))
        with pytest.raises(NotWritableError, match="exists"):
            finish(mine, "my.csv")
    else:
        files = type(storage._files)
        create = files.create

        def late(self: Any, uri: str, data: bytes) -> bool:
            if data == b"mine":
                monkeypatch.setattr(files, "create", create)
                theirs.begin()
                finish(theirs, "their.csv")
            return bool(create(self, uri, data))

        monkeypatch.setattr(files, "create", late)
        with pytest.raises(NotWritableError, match="exists"):
            mine.begin()
    out = storage.sub("out")
    assert out.read("their.csv") == b"rows"
    assert json.loads(out.read(MANIFEST))["owner"] == "theirs"
    assert not out.is_file(UNFINISHED)
    again = NewFolder(storage.uri("out"), "theirs")
    again.begin()
    finish(again, "again.csv")
    assert sorted(entry.path for entry in out.list()) == [MANIFEST, "again.csv"]
