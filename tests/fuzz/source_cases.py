"""What the files of all formats share: how they are spoilt, and read as the jobs do."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from hipslake.errors import SpecError, StorageError
from hipslake.sources import open_source
from hipslake.specs.source_spec import SourceSpec
from pydantic import ValidationError

from tests.fuzz.mutation import respelt, spoilt
from tests.fuzz.target import Case

Corpus = Callable[[], list[bytes]]
_MOST_ROWS = 5_000_000  # a sound file of some bytes may say that it has many: so many are read


def read_as(format_: str) -> Callable[[Case, Path], None]:
    def read(case: Case, folder: Path) -> None:
        """Read a file as the jobs do: list, split, infer, unify, read."""
        (folder / f"a{case.ending}").write_bytes(case.data)
        target_bytes = case.told.get("target_bytes", 1 << 28)
        given = {"uri": f"{folder}/*", "format": format_, "options": case.told.get("options", {})}
        try:
            source = open_source(SourceSpec.model_validate(given))
        except ValidationError as error:
            raise SpecError(str(error)) from None  # as whoever reads a spec file does
        try:
            files = source.list_files()
            splits = source.splits(files, target_bytes)[:50]
            schema = source.schema(files)
            if schema is None:
                schema = source.unify([(split.file.uri, source.infer(split)) for split in splits])
            rows = 0
            for split in splits:
                for batch in source.read(split, schema):
                    batch.validate()
                    rows += batch.num_rows
                    if rows > _MOST_ROWS:
                        return
        except StorageError as error:
            raise AssertionError(f"the file is damaged, but the run would try again: {error}") from error

    return read


def case_of(
    corpus: Corpus,
    ending: str,
    remade: Callable[[Random, bytes], bytes],
    options: Callable[[Random], dict[str, Any]],
) -> Callable[[Random], Case]:
    def make(random: Random) -> Case:
        sound = corpus()
        data = random.choice(sound)
        told = {"options": options(random), "target_bytes": random.choice((1, 100, 3000, 1 << 28))}
        if random.random() < 0.6:
            data = remade(random, data)
        if random.random() < 0.3 or data in sound:
            data = spoilt(random, data, sound, most=random.choice((1, 2, 6)))
        match random.randrange(12):
            case 0:
                packed = gzip.compress(data, 1, mtime=0)
                return Case(spoilt(random, packed) if random.random() < 0.5 else packed, f"{ending}.gz", told)
            case 1:
                packed = pa.Codec("zstd").compress(data, asbytes=True)
                return Case(
                    spoilt(random, packed) if random.random() < 0.5 else packed, f"{ending}.zst", told
                )
        return Case(data, ending, told)

    return make


def table_of(random: Random, rows: int) -> pa.Table:
    """Rows of many types, with nulls."""
    values = {
        "id": pa.array(range(rows), pa.int64()),
        "ra": pa.array([random.uniform(0, 360) for _ in range(rows)]),
        "dec": pa.array([random.uniform(-90, 90) for _ in range(rows)], pa.float32()),
        "flag": pa.array([random.choice((True, False, None)) for _ in range(rows)]),
        "name": pa.array([random.choice(("a", "é", "", None)) for _ in range(rows)]),
        "when": pa.array([random.randrange(10**15) for _ in range(rows)], pa.timestamp("us", "UTC")),
        "bytes": pa.array([random.randbytes(3) for _ in range(rows)]),
        "list": pa.array([[1.5] * random.randrange(4) for _ in range(rows)]),
        "word": pa.array([random.choice("xyz") for _ in range(rows)]).dictionary_encode(),
        "price": pa.array([random.randrange(10**6) for _ in range(rows)]).cast(pa.decimal128(21, 2)),
        "pair": pa.array(
            [{"a": 1, "b": None} for _ in range(rows)], pa.struct([("a", pa.int8()), ("b", pa.string())])
        ),
    }
    return pa.table(values)


def by_words(words: tuple[str, ...]) -> Callable[[Random, bytes], bytes]:
    def remade(random: Random, data: bytes) -> bytes:
        text = respelt(random, data.decode("utf-8", "surrogateescape"), words, most=random.choice((1, 2, 4)))
        return text.encode("utf-8", "surrogatepass" if random.random() < 0.5 else "replace")

    return remade
