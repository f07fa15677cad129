"""Files of web servers that do not say how long these are: read whole, never taken for empty."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from astropy.table import Table
from hipslake.errors import NotReadableError, StorageError
from hipslake.sources import open_source
from hipslake.sources.file_listing import check_unchanged
from hipslake.specs.source_spec import SourceSpec
from hipslake.storage import ranged_file
from hipslake.storage.folder import Storage

from tests.stores.http_serving import PlainHandler, running_http

ROWS = 5000
ENDINGS = {"parquet": "parquet", "csv": "csv", "fits": "fits", "votable": "xml", "ecsv": "ecsv"}


class Untold(PlainHandler):
    """Sends files in chunks, or until it hangs up; it knows no ranges."""

    root: Path
    chunked: bool

    def reply(self, body: bytes) -> None:
        if not self._head() or self.command == "HEAD":
            return
        data = (
            (self.root / self.path.strip("/")).read_bytes() if "endless" not in self.path else b"1,2\n" * 9999
        )
        while True:
            if data:  # an empty piece is the end
                self._piece(data)
            if "endless" not in self.path:
                break
        self._piece(b"")

    def _head(self) -> bool:
        found = "endless" in self.path or (self.root / self.path.strip("/")).is_file()
        self.send_response(200 if found else 404)
        if not found:
            self.send_header("Content-Length", "0")
        elif self.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        return found

    def _piece(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if self.chunked else data)


@pytest.fixture(params=[True, False], ids=["chunked", "until it hangs up"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with running_http(Untold, root=tmp_path, chunked=request.param) as address:
        yield address


def write_rows(path: Path, kind: str) -> None:
    rows = {"id": list(range(ROWS)), "ra": [0.5] * ROWS, "dec": [1.5] * ROWS}
    if kind == "parquet":
        pq.write_table(pa.table(rows), path, row_group_size=1000)
    else:
        formats = {"csv": "ascii.csv", "ecsv": "ascii.ecsv"}
        Table(rows).write(path, format=formats.get(kind, kind))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ENDINGS)
def test_all_rows_are_read(server: str, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"rows.{ENDINGS[kind]}"
    write_rows(path, kind)
    source = open_source(SourceSpec(uri=f"{server}/{path.name}", format=kind))
    [file] = source.list_files()
    assert file.size == path.stat().st_size
    check_unchanged(file)
    splits = source.splits([file], 20_000)
    schema = source.schema([file]) or source.unify([(each.file.uri, source.infer(each)) for each in splits])
    batches = [batch for split in splits for batch in source.read(split, schema)]
    assert pa.Table.from_batches(batches)["id"].to_pylist() == list(range(ROWS))


def test_a_file_without_a_byte_is_empty(server: str, tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    assert Storage.at(server).entry("empty.csv").size == 0
    with pytest.raises(FileNotFoundError):
        Storage.at(server).entry("nothing.csv")


def test_an_answer_without_an_end_is_not_waited_for(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranged_file, "MOST_UNSIZED", 1 << 20)
    storage = Storage.at(server)
    for look in (storage.entry, storage.open):
        with pytest.raises((NotReadableError, StorageError), match="does not say how long it is"):
            look("endless.csv")  # type: ignore[operator]
