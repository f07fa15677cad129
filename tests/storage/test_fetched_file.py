"""Files of which pieces are fetched before they are read: the same bytes, wherever they come from."""

from __future__ import annotations

import io
import random
from itertools import pairwise

import pyarrow as pa
import pytest
from hipslake.storage.fetched_file import FetchedFile, fetched_file, merged_spans
from hipslake.storage.folder import Storage
from hypothesis import given
from hypothesis import strategies as st

DATA = random.Random(1).randbytes(400_000)
SPANS = st.lists(st.tuples(st.integers(0, 400_000), st.integers(1, 90_000)), max_size=8).map(
    lambda found: [(start, min(start + size, len(DATA))) for start, size in found if start < len(DATA)]
)


@pytest.fixture(scope="module")
def storage() -> Storage:
    storage = Storage.at("memory://fetched")
    storage.write("a", DATA)
    return storage


@given(spans=SPANS, reads=st.lists(st.tuples(st.integers(-5, 400_005), st.integers(-1, 120_000)), max_size=9))
def test_every_read_gives_what_the_file_holds(
    storage: Storage, spans: list[tuple[int, int]], reads: list[tuple[int, int]]
) -> None:
    with storage.arrow_file("a", len(DATA)) as source:
        found, plain = fetched_file(storage, "a", source, spans), io.BytesIO(DATA)
        for at, size in reads:
            whence = io.SEEK_SET if at >= 0 else io.SEEK_END
            assert found.seek(at, whence) == plain.seek(at, whence)
            assert found.read(size if size >= 0 else None) == plain.read(size)
            assert found.tell() == plain.tell()


def test_pieces_are_taken_in_place_of_the_file() -> None:
    file = FetchedFile(pa.BufferReader(DATA), [(10, b"0123456789"), (30, b"abc")])
    for at, size, expected in (
        (12, 4, b"2345"),
        (10, 10, b"0123456789"),
        (31, 2, b"bc"),
        (31, 3, DATA[31:34]),
    ):
        file.seek(at)
        assert file.read(size) == expected


@given(SPANS, st.integers(0, 100_000))
def test_merged_spans_cover_the_spans_and_lie_apart(spans: list[tuple[int, int]], gap: int) -> None:
    found = merged_spans(spans, gap)
    assert all(any(start <= one and other <= stop for start, stop in found) for one, other in spans)
    assert {at for span in found for at in span} <= {at for span in spans for at in span}
    assert all(after - stop >= gap for (_, stop), (after, _) in pairwise(found))
