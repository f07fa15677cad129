"""What tasks have matched is stored as it is, whatever dictionaries its batches have."""

from __future__ import annotations

from pathlib import Path

import hipslake
import numpy as np
import pyarrow as pa
import pytest
from hipslake.steps.join.match_pieces import Pieces
from hipslake.storage.folder import Storage

from tests.catalog.matching import pairs_of, published, rows_at

ROWS = 200


def test_batches_may_have_dictionaries_of_their_own(tmp_path: Path) -> None:
    words = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema({"_healpix_29": pa.int64(), "word": words, "words": pa.list_(words)})
    batches = [
        pa.RecordBatch.from_pylist([{"_healpix_29": at, "word": word, "words": [word, None]}], schema)
        for at, word in enumerate(["r", "g", None, "r"])
    ]
    pieces = Pieces(Storage.at(str(tmp_path)), "matched")
    assert list(pieces.write(3, schema, batches)) == batches
    assert pa.Table.from_batches(pieces.read(3)).to_pylist() == pa.Table.from_batches(batches).to_pylist()


@pytest.mark.parametrize("how", ["left", "outer"])
def test_words_of_dictionaries_are_published_beside_their_rows(tmp_path: Path, how: str) -> None:
    rng = np.random.default_rng(4)
    sides = []
    for name in "ab":
        word = pa.array([f"{name}{number}" for number in rng.integers(0, 9, ROWS)]).dictionary_encode()
        rows = rows_at(45 + 0.1 * rng.normal(size=ROWS), 41.8 + 0.1 * rng.normal(size=ROWS), word=word)
        published(tmp_path / "catalogs", name, rows, threshold="40 rows", margin_arcsec=60.0)
        sides.append(rows)
    spec = {"left": {"catalog": "a"}, "right": {"catalog": "b"}, "radius_arcsec": 60, "how": how}
    match = hipslake.publish(
        {"name": "a_x_b", "type": "crossmatch", "neighbours": "all"} | spec, warehouse=tmp_path, spark=False
    )
    match.verify().raise_if_failed()
    found, (left, right) = match.read(), (side["word"].to_pylist() for side in sides)
    for pair, mine, other in zip(
        pairs_of(found), found["word"].to_pylist(), found["word_b"].to_pylist(), strict=True
    ):
        expected = [None if at is None else words[at] for at, words in zip(pair, (left, right), strict=True)]
        assert [mine, other] == expected
    assert found.num_rows > 100
