"""The pixels of objects are found by id, from pieces in any store and with little memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hipslake.catalog import object_pixels
from hipslake.catalog.object_pixels import (
    NULL_ID,
    UNKNOWN_ID,
    ObjectPixels,
    forget_pieces,
    piece_of,
    piece_path,
    piece_schema,
    pieces_for,
)
from hipslake.joins.key_codes import KeyKind, key_codes, plain_keys
from hipslake.storage.folder import Storage


def store(storage: Storage, ids: pa.Array, pieces: int, kind: KeyKind) -> ObjectPixels:
    """The i-th id has pixel 10 i."""
    keys = plain_keys(ids)
    codes = key_codes(keys)
    columns = [pa.array(codes), pa.array(np.arange(len(ids)) * 10), *([keys] if kind == "text" else [])]
    table = pa.Table.from_arrays(columns, schema=piece_schema(kind))
    for number in np.unique(piece_of(codes, pieces)).tolist():
        mine = table.filter(pa.array(piece_of(codes, pieces) == number)).sort_by("code").combine_chunks()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, mine.schema) as writer:
            writer.write_table(mine)
        storage.write(piece_path(number), sink.getvalue())
    forget_pieces(storage)
    return ObjectPixels(storage, kind, pieces)


@pytest.mark.parametrize("kind", ["integer", "text"])
def test_ids_are_found_wherever_the_pieces_lie(
    storage: Storage, kind: KeyKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_pixels, "HELD_BYTES", 1)  # a store's pieces are fetched again and again
    numbers = np.random.default_rng(1).permutation(3000)
    ids = pa.array(numbers) if kind == "integer" else pa.array([f"star {number}" for number in numbers])
    pixels = store(storage, ids, 16, kind)
    asked = np.random.default_rng(2).integers(0, 3000, 500)
    assert pixels.find(ids.take(pa.array(asked))).tolist() == (asked * 10).tolist()
    strange = [None, 7000, -1] if kind == "integer" else [None, "star 7000", ""]
    assert pixels.find(pa.array(strange, ids.type)).tolist() == [NULL_ID, UNKNOWN_ID, UNKNOWN_ID]
    assert pixels.find(pa.array([], ids.type)).tolist() == []


def test_texts_that_share_a_code_are_told_apart(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def same_code(keys: pa.Array) -> np.ndarray:
        return np.full(len(keys), 5, np.uint64)

    monkeypatch.setattr("hipslake.joins.key_codes.key_codes", same_code)
    monkeypatch.setitem(globals(), "key_codes", same_code)
    pixels = store(Storage.at(str(tmp_path)), pa.array(["a", "b", "c"]), 1, "text")
    assert pixels.find(pa.array(["c", "x", "a", "b", "a"])).tolist() == [20, UNKNOWN_ID, 0, 10, 0]


def test_pieces_are_a_power_of_two_and_not_too_long() -> None:
    most = object_pixels.PIECE_ROWS
    assert [pieces_for(rows) for rows in (0, 1, most, most + 1, 5 * most)] == [1, 1, 1, 2, 8]
