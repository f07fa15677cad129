"""Exports as FITS: one binary table, as any FITS reader opens it.

Standard: FITS 4.0, section 7.3. Big-endian; unsigned integers and int8 by TZERO. Null is NaN in floats, TNULL
in integers (of a wider type where no number is free for it), a zero byte in logicals and texts; the empty
text is a blank.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hipslake.errors import SchemaMismatchError
from hipslake.exports.moment_texts import moment_texts
from hipslake.exports.provenance import Provenance
from hipslake.sources.widening import is_text

_FLOATS = {pa.float16(): "f4", pa.float32(): "f4", pa.float64(): "f8"}
_INTEGERS = {pa.from_numpy_dtype(name): name for name in ("u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8")}
_CODES = {"u1": "B", "i2": "I", "i4": "J", "i8": "K", "f4": "E", "f8": "D"}
_WITH_ZERO = {"i1": "u1", "u2": "i2", "u4": "i4", "u8": "i8"}  # what FITS stores them as
_NULLABLE = {
    "u1": ("u1", "i2"),
    "i1": ("i2",),
    "u2": ("i4",),
    "i2": ("i2", "i4"),
    "u4": ("i8",),
    "i4": ("i4", "i8"),
    "u8": ("i8",),
    "i8": ("i8",),
}
MAX_COLUMNS = 999
_BLOCK = 2880
_BATCH_ROWS = 1 << 16


@dataclass
class FitsField:
    """One column of a FITS table.

    It looks at all rows before it knows its form: how wide texts are, and which number is free for null.

    Parameters
    ----------
    name : str
    type : pyarrow.DataType

    Raises
    ------
    SchemaMismatchError
        FITS has no form for the type.
    """

    name: str
    type: pa.DataType
    length: int = 1  # values in a cell
    nulls: int = 0
    width: int = 1  # bytes of the longest text
    low: int | None = None  # of integers
    high: int | None = None
    _kind: str = field(init=False)

    def __post_init__(self) -> None:
        element = self.type
        if pa.types.is_fixed_size_list(element):
            self.length, element = element.list_size, element.value_type
        if pa.types.is_dictionary(element):
            element = element.value_type
        if pa.types.is_boolean(element):
            self._kind = "logical"
        elif element in _INTEGERS:
            self._kind = _INTEGERS[element]
        elif element in _FLOATS or pa.types.is_decimal(element):
            self._kind = _FLOATS.get(element, "f8")
        elif not self.is_list and (is_text(element) or pa.types.is_temporal(element)):
            self._kind = "text"
        else:
            raise SchemaMismatchError(
                f"export: FITS has no form for column {self.name!r} ({self.type}); "
                "leave it out, or take parquet"
            )

    @property
    def is_list(self) -> bool:
        """Whether a cell holds several values."""
        return bool(pa.types.is_fixed_size_list(self.type))

    @property
    def is_integer(self) -> bool:
        """Whether the values are integers."""
        return self._kind[0] in "iu"

    @property
    def form(self) -> str:
        """TFORM."""
        if self._kind == "text":
            return f"{self.width}A"
        code = "L" if self._kind == "logical" else _CODES[self._stored]
        return f"{self.length}{code}" if self.is_list else code

    @property
    def zero(self) -> int | None:
        """TZERO: what is added to the stored integers; only where nothing is null."""
        if self.nulls or self._kind not in _WITH_ZERO:
            return None
        return -128 if self._kind == "i1" else 1 << (8 * int(self._kind[1]) - 1)

    @property
    def null(self) -> int | None:
        """TNULL: the integer that stands for null; None if nothing is null."""
        return self._stored_with_null[1] if self.is_integer and self.nulls else None

    @property
    def dtype(self) -> tuple[str, tuple[int, ...]]:
        """How a cell lies in the file: numpy's name of the type, and its shape."""
        if self._kind == "text":
            return f"S{self.width}", ()
        kind = "u1" if self._kind == "logical" else self._stored
        return f">{kind}", (self.length,) if self.is_list else ()

    def look(self, column: pa.ChunkedArray) -> None:
        """Take note of some rows.

        Raises
        ------
        SchemaMismatchError
            A text is not ASCII.
        """
        if self._kind == "text":
            texts = _texts(column)
            if not pc.all(pc.string_is_ascii(texts)).as_py() and texts.null_count < len(texts):
                first = texts.filter(pc.invert(pc.string_is_ascii(texts)))[0].as_py()
                raise SchemaMismatchError(
                    f"export: column {self.name!r} holds {first[:40]!r}, and texts in FITS are ASCII; "
                    "leave it out, or take parquet or csv"
                )
            self.width = max(self.width, pc.max(pc.binary_length(texts)).as_py() or 0)
        elif self.is_integer:
            values = _elements(column, self.length)
            self.nulls += values.null_count
            found = pc.min_max(values).as_py()
            if found["min"] is not None:
                self.low = found["min"] if self.low is None else min(self.low, found["min"])
                self.high = found["max"] if self.high is None else max(self.high, found["max"])

    def cells(self, column: pa.ChunkedArray) -> NDArray[np.generic]:
        """Some rows as they are stored, of `dtype`."""
        kind, shape = self.dtype
        if self._kind == "text":
            texts = pc.if_else(pc.equal(pc.binary_length(_texts(column)), 0), " ", _texts(column))
            return np.array(texts.fill_null("").to_numpy(), dtype=kind)
        values = _elements(column, self.length)
        if self._kind == "logical":
            stored = pc.if_else(values, ord("T"), ord("F")).fill_null(0).to_numpy().astype("u1")
        elif self.is_integer and self.nulls:
            wide = values.cast(pa.from_numpy_dtype(self._stored))
            stored = wide.fill_null(pa.scalar(self.null, wide.type)).to_numpy()
        elif self.is_integer:
            stored = _shifted(values.to_numpy(), self._kind)
        else:
            stored = values.cast(pa.from_numpy_dtype(self._kind)).fill_null(np.nan).to_numpy()
        return np.asarray(stored.reshape(len(column), *shape).astype(kind))

    @property
    def _stored(self) -> str:
        """numpy's name of the type of the stored values."""
        if self.is_integer and self.nulls:
            return self._stored_with_null[0]
        return _WITH_ZERO.get(self._kind, self._kind)

    @property
    def _stored_with_null(self) -> tuple[str, int]:
        """The first type that holds all integers and one more, and that one.

        Types that need a TZERO are not among them: common readers do not bring it together with TNULL.
        """
        low, high = self.low or 0, self.high or 0
        for kind in _NULLABLE[self._kind]:
            limits = np.iinfo(kind)
            if limits.min < low and high <= limits.max:
                return kind, int(limits.min)
            if limits.min <= low and high < limits.max:
                return kind, int(limits.max)
        raise SchemaMismatchError(
            f"export: column {self.name!r} ({self.type}) has nulls, and no integer that FITS can hold is "
            "left to stand for null; take parquet or csv"
        )


def _shifted(values: NDArray[np.generic], kind: str) -> NDArray[np.generic]:
    """Integers less TZERO: their highest bit turned over, for types that FITS has not itself."""
    if kind not in _WITH_ZERO:
        return values
    bits = np.ascontiguousarray(values).view(f"u{kind[1]}")
    turned = bits ^ bits.dtype.type(1 << (8 * int(kind[1]) - 1))
    return turned if kind == "i1" else turned.view(f"i{kind[1]}")


def _elements(column: pa.ChunkedArray, length: int) -> pa.Array:
    """The values of all cells, one after the other; those of a cell that is null are null."""
    array = column.combine_chunks()
    if pa.types.is_fixed_size_list(array.type):
        first = array.offset * length
        values = array.values.slice(first, len(array) * length)
        if array.null_count:
            absent = np.repeat(array.is_null().to_numpy(zero_copy_only=False), length)
            values = pc.if_else(pa.array(absent), pa.scalar(None, values.type), values)
        array = values
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts as they are, moments in ISO 8601 (UTC where they have a time zone)."""
    if pa.types.is_timestamp(column.type):
        return pa.chunked_array([moment_texts(chunk) for chunk in column.chunks], pa.large_string())
    return column.cast(pa.large_string())


class FitsTables:
    """Writes a FITS binary table.

    The header says how many rows there are, how wide texts are and what stands for null, which is known at
    the end. So the rows wait in the temporary folder, as an Arrow stream, until all are there.
    """

    def check(self, schema: pa.Schema) -> None:
        if not 0 < len(schema) <= MAX_COLUMNS:
            raise SchemaMismatchError(
                f"export: a FITS table has 1 to {MAX_COLUMNS} columns, not {len(schema)}"
            )
        odd = [name for name in schema.names if not (name.isascii() and name.isprintable())]
        if odd:
            raise SchemaMismatchError(
                f"export: names of columns in FITS are ASCII, not {', '.join(map(repr, odd))}; leave it out"
            )
        if blank := [name for name in schema.names if name != name.rstrip() or not name]:
            raise SchemaMismatchError(
                "export: names of columns in FITS do not end with blanks, as "
                f"{', '.join(map(repr, blank))} does; leave it out"
            )
        _columns(pa.schema([_in_numbers(field) for field in schema]))

    def write(self, file: BinaryIO, schema: pa.Schema, tables: Iterable[pa.Table], origin: Provenance) -> int:
        numbers = pa.schema([_in_numbers(field) for field in schema])
        has_durations, schema = not numbers.equals(schema), numbers
        columns = _columns(schema)
        rows = 0
        with tempfile.TemporaryDirectory(prefix="hipslake-") as folder:
            spool = Path(folder, "rows.arrow")
            with pa.ipc.new_stream(
                str(spool), schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
            ) as out:
                for given in tables:
                    table = given.cast(schema) if has_durations else given
                    rows += table.num_rows
                    for column, values in zip(columns, table.columns, strict=True):
                        column.look(values)
                    out.write_table(table, max_chunksize=_BATCH_ROWS)
            file.write(_headers(schema, columns, rows, origin))
            with pa.OSFile(str(spool)) as source, pa.ipc.open_stream(source) as batches:
                for batch in batches:
                    file.write(_packed(columns, pa.Table.from_batches([batch])))
        file.write(b"\0" * (-rows * _layout(columns).itemsize % _BLOCK))
        return rows


def _in_numbers(field: pa.Field) -> pa.Field:
    """A column of durations as one of whole numbers, whose unit is that of the type if it says none."""
    if not pa.types.is_duration(field.type):
        return field
    return field.with_type(pa.int64()).with_metadata({b"unit": field.type.unit, **(field.metadata or {})})


def _columns(schema: pa.Schema) -> list[FitsField]:
    return [FitsField(each.name, each.type) for each in schema]


def _layout(columns: list[FitsField]) -> np.dtype[np.void]:
    return np.dtype([(f"f{at}", *column.dtype) for at, column in enumerate(columns)])


def _packed(columns: list[FitsField], table: pa.Table) -> bytes:
    rows = np.empty(table.num_rows, _layout(columns))
    for at, (column, values) in enumerate(zip(columns, table.columns, strict=True)):
        rows[f"f{at}"] = column.cells(values)
    return rows.tobytes()


def _headers(schema: pa.Schema, columns: list[FitsField], rows: int, origin: Provenance) -> bytes:
    """The header of an empty primary HDU, and that of the table."""
    from astropy.io import fits

    head = fits.Header()
    head["XTENSION"] = ("BINTABLE", "binary table extension")
    head["BITPIX"], head["NAXIS"] = 8, 2
    head["NAXIS1"] = (_layout(columns).itemsize, "bytes of a row")
    head["NAXIS2"] = (rows, "rows")
    head["PCOUNT"], head["GCOUNT"] = 0, 1
    head["TFIELDS"] = len(columns)
    head["EXTNAME"] = origin.catalog
    for number, (column, each) in enumerate(zip(columns, schema, strict=True), 1):
        metadata = {key.decode(): value.decode() for key, value in (each.metadata or {}).items()}
        head[f"TTYPE{number}"] = column.name
        head[f"TFORM{number}"] = column.form
        for key, value in (("TNULL", column.null), ("TZERO", column.zero)):
            if value is not None:
                head[f"{key}{number}"] = value
        if column.zero is not None:
            head[f"TSCAL{number}"] = 1
        if metadata.get("unit", "").isascii() and metadata.get("unit"):
            head[f"TUNIT{number}"] = metadata["unit"]
        if metadata.get("description"):
            head[f"TCOMM{number}"] = _ascii(metadata["description"])
        if metadata.get("ucd", "").isascii() and metadata.get("ucd"):
            head[f"TUCD{number}"] = metadata["ucd"]
    for name, text in origin.fields().items():
        head.add_history(_ascii(f"{name}: {text}"))
    primary = fits.PrimaryHDU().header
    return (primary.tostring() + head.tostring()).encode("ascii")


def _ascii(text: str) -> str:
    """Text as a header may hold it: in one line, with `?` for what is not ASCII."""
    plain = " ".join(text.split()).encode("ascii", "replace").decode()
    return "".join(character if character.isprintable() else "?" for character in plain)
