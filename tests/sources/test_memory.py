"""Memory of reading: bounded by what is read at a time, whatever the size of the file."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hipslake.sources import Source
from hipslake.sources.fits import source as fits
from hipslake.sources.votable import source as votable

from benchmarks.fits_table import write_table
from tests.sources.reading import source

MB = 1 << 20


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """Python's own memory, numpy's with it, may grow by so many bytes."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < size, f"{peak / MB:.1f} MiB"


def rows_read(reader: Source) -> int:
    """Read everything, keep nothing."""
    files = reader.list_files()
    schema = reader.schema(files)
    assert schema is not None
    splits = reader.splits(files)
    return sum(batch.num_rows for split in splits for batch in reader.read(split, schema))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_fits_takes_memory_for_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    monkeypatch.setattr(fits, "BATCH_BYTES", MB)
    path = tmp_path / "a.fits"
    write_table(path, 500_000)
    assert path.stat().st_size > 40 * MB
    if suffix:
        path.with_name("a.fits.gz").write_bytes(gzip.compress(path.read_bytes(), 1))
        path.unlink()
    reader = source("fits", f"{tmp_path}/*")
    rows_read(reader)  # what is imported and cached once does not count
    with at_most(8 * MB):
        assert rows_read(reader) == 500_000


def test_votable_takes_memory_for_a_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(votable, "_CHUNK_BYTES", MB // 4)
    rows = "<TR><TD>1234567</TD><TD>some words that make the row longer</TD></TR>\n" * 200_000
    (tmp_path / "a.vot").write_text(
        '<VOTABLE version="1.4"><RESOURCE><TABLE><FIELD name="a" datatype="int"/>'
        '<FIELD name="b" datatype="char" arraysize="*"/>'
        f"<DATA><TABLEDATA>{rows}</TABLEDATA></DATA></TABLE></RESOURCE></VOTABLE>"
    )
    assert (tmp_path / "a.vot").stat().st_size > 12 * MB
    reader = source("votable", f"{tmp_path}/*")
    with at_most(6 * MB):
        assert rows_read(reader) == 200_000
