"""Sketches of the distinct values of columns: Theta sketches of Apache DataSketches, made of whole columns.

A sketch keeps the smallest hashes of values. It is exact up to `NOMINAL` values, and beyond them its estimate
has a standard error of 1 / sqrt(`NOMINAL`), 1.6 %. Sketches of rows that are apart can be united; rows cannot
be taken out of one.

Values are hashed as Iceberg asks for it (`hipslake.tables.single_values`), in columns; the package
`datasketches` unites, estimates and stores. It is imported when the first sketch is made.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.errors import CorruptFileError
from hipslake.optional_packages import imported
from hipslake.tables.murmur128 import murmur3_x64
from hipslake.tables.new_files import NewFile
from hipslake.tables.single_values import single_values

NOMINAL = 4096
"""How many hashes a sketch keeps: the default of DataSketches."""
_SEED = 9001
"""That of DataSketches, and of Iceberg's sketches."""
_LG_NOMINAL = NOMINAL.bit_length() - 1
_WHOLE = (1 << 63) - 1
"""The threshold of a sketch that has left out no hash."""
_SLICE = 1 << 15
"""Rows that are hashed at once."""

Sketch = bytes
"""A compact Theta sketch as DataSketches stores it."""


def sketches_package() -> Any:
    """The package of sketches.

    Raises
    ------
    MissingPackageError
        It is not installed.
    """
    return imported("datasketches", "statistics: ndv of a table")


class SketchMaker:
    """Makes the sketch of a column, part after part.

    Raises
    ------
    MissingPackageError
        `datasketches` is not installed.
    """

    def __init__(self) -> None:
        self._package = sketches_package()
        self._union = self._package.theta_union(_LG_NOMINAL, seed=_SEED)
        self._seed_hash = self._package.update_theta_sketch(seed=_SEED).get_seed_hash()

    def add(self, values: pa.Array | pa.ChunkedArray) -> None:
        """Add values; nulls are passed over."""
        chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
        for chunk in chunks:
            storage = chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk
            for first in range(0, len(storage), _SLICE):
                self._add(storage.slice(first, _SLICE))

    def unite(self, sketch: Sketch) -> None:
        """Add the values of another sketch.

        Raises
        ------
        CorruptFileError
            It is none.
        """
        with _damage_is_told():
            self._union.update(_read(self._package, sketch))

    def sketch(self) -> Sketch:
        """That of all values so far."""
        made: bytes = self._union.get_result().serialize()
        return made

    def _add(self, values: pa.Array) -> None:
        kind = values.type
        if not (pa.types.is_primitive(kind) or pa.types.is_boolean(kind)):
            values = values.unique()  # long ones are hashed once
        packed = single_values(values)
        hashes = murmur3_x64(*packed, seed=_SEED) >> np.uint64(1)
        threshold = self._union.get_result(False).theta64
        hashes = np.unique(hashes[(hashes < threshold) & (hashes > 0)])  # none is 0, as it means no hash
        if len(hashes):
            self._union.update(_read(self._package, self._stored(hashes, threshold)))

    def _stored(self, hashes: NDArray[np.uint64], threshold: int) -> Sketch:
        """Hashes, ascending and below a threshold, as the format of compact sketches has them."""
        preamble_longs, serial_version, compact_family = 3, 3, 3
        read_only, compact, ordered = 2, 8, 16
        head = struct.pack(
            "<BBBBBBHIfQ",
            *(preamble_longs, serial_version, compact_family, 0, 0),
            read_only | compact | ordered,
            self._seed_hash,
            len(hashes),
            1.0,  # all values are looked at
            threshold,
        )
        return head + hashes.astype("<u8").tobytes()


@contextmanager
def _damage_is_told() -> Iterator[None]:
    try:
        yield
    except (ValueError, RuntimeError, IndexError, MemoryError, OverflowError) as error:
        raise CorruptFileError(f"a sketch of distinct values is damaged: {error}") from None


def _read(package: Any, sketch: Sketch) -> Any:
    with _damage_is_told():
        found = package.compact_theta_sketch.deserialize(sketch, _SEED)
        if not math.isfinite(found.get_estimate()):
            raise ValueError(f"its threshold is {found.theta64}")
        return found


def united(sketches: Iterable[Sketch]) -> Sketch:
    """The sketch of the values of several; of none, that of no values.

    Raises
    ------
    CorruptFileError
        One of them is damaged, or was made with another seed.
    """
    maker = SketchMaker()
    for sketch in sketches:
        maker.unite(sketch)
    return maker.sketch()


def distinct_values(sketch: Sketch) -> int:
    """How many values a sketch has seen: an estimate, exact up to `NOMINAL`.

    Raises
    ------
    CorruptFileError
        It is damaged.
    """
    return round(_read(sketches_package(), sketch).get_estimate())


class SketchedVersion(NamedTuple):
    """A version of a table that has sketches of the distinct values of columns, by name."""

    version: int
    sketches: Mapping[str, Sketch]


class CountedColumn(NamedTuple):
    """A column, or a part of a struct, whose distinct values are counted.

    Attributes
    ----------
    name : str
        As the spec has it; parts of structs behind dots.
    path : tuple of str
    field : pyarrow.Field
    """

    name: str
    path: tuple[str, ...]
    field: pa.Field

    def of(self, rows: pa.Table | pa.RecordBatch) -> pa.Array | pa.ChunkedArray:
        """Its values in rows; those of a part are null where the struct is."""
        values = rows[self.path[0]]
        for name in self.path[1:]:
            values = pc.struct_field(values, name)
        return values


def counted_column(schema: pa.Schema, name: str) -> CountedColumn | None:
    """Find a column by the name that a spec has; None if there is none.

    Parameters
    ----------
    schema : pyarrow.Schema
    name : str
        A column; or a part of a struct, `struct.part`.
    """
    found = _found(schema, name)
    return None if not found else CountedColumn(name, tuple(each.name for each in found), found[-1])


def _found(fields: Iterable[pa.Field], name: str) -> list[pa.Field]:
    fields = list(fields)
    if whole := [each for each in fields if each.name == name]:
        return whole[:1]
    for each in fields:
        if pa.types.is_struct(each.type) and name.startswith(f"{each.name}."):
            parts = [each.type.field(at) for at in range(each.type.num_fields)]
            if rest := _found(parts, name.removeprefix(f"{each.name}.")):
                return [each, *rest]
    return []


def sketches_of(
    batches: Iterable[pa.Table | pa.RecordBatch], columns: Sequence[CountedColumn]
) -> dict[str, Sketch]:
    """The sketches of columns in some rows, by the names of the columns."""
    makers = {column.name: SketchMaker() for column in columns}
    for batch in batches:
        for column in columns:
            makers[column.name].add(column.of(batch))
    return {name: maker.sketch() for name, maker in makers.items()}


def as_texts(sketches: Mapping[str, Sketch]) -> dict[str, str]:
    """Sketches as a `NewFile` has them."""
    return {name: base64.b64encode(sketch).decode("ascii") for name, sketch in sketches.items()}


def of_files(files: Iterable[NewFile]) -> dict[str, Sketch]:
    """The sketches of the rows of files that tasks have written, by column."""
    return united_by_name((name, base64.b64decode(text)) for name, text in _texts(files))


def _texts(files: Iterable[NewFile]) -> Iterator[tuple[str, str]]:
    for file in files:
        yield from file.sketches.items()


def united_by_name(named: Iterable[tuple[str, Sketch]]) -> dict[str, Sketch]:
    """Sketches, united by names of columns."""
    makers: dict[str, SketchMaker] = {}
    for name, sketch in named:
        if name not in makers:
            makers[name] = SketchMaker()
        makers[name].unite(sketch)
    return {name: maker.sketch() for name, maker in makers.items()}


def sketched_together(files: list[NewFile]) -> list[NewFile]:
    """Files of one task: the first of them has the sketches of all, so that little travels."""
    if len(files) < 2 or not any(file.sketches for file in files):
        return files
    first = files[0].model_copy(update={"sketches": as_texts(of_files(files))})
    return [first, *(file.model_copy(update={"sketches": {}}) for file in files[1:])]
