"""Exports to VOTable 1.4: rows as TABLEDATA, written as they come.

Format: VOTable 1.4, IVOA Recommendation 2019-10-21; times by DALI 1.1. Units, UCDs and descriptions are those
of the columns' metadata. An empty cell is null; of texts, VOTable cannot tell it from the empty text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from hipslake.errors import SchemaMismatchError
from hipslake.exports.hexadecimal import hexadecimal, is_bytes
from hipslake.exports.moment_texts import moment_texts
from hipslake.exports.provenance import Provenance
from hipslake.exports.votable_columns import NAMESPACE, DescribedColumn, escaped, field_elements, quoted
from hipslake.exports.votable_types import TEXT, DeclaredField, declared_field

_NO_XML = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x{fffe}\x{ffff}]"
_NO_NUMBERS = (("nan", "NaN"), ("inf", "+Inf"), ("-+Inf", "-Inf"))  # as Arrow writes them, as VOTable does


class VotableTables:
    """Writes VOTable.

    Parameters
    ----------
    ucds : mapping of str to str, optional
        UCDs of columns, in place of those that their metadata say.
    chars : collection of str
        Columns that are written as texts of type `char`, as Simple Cone Search has it of identifiers.
    """

    def __init__(self, ucds: Mapping[str, str] | None = None, chars: Collection[str] = ()) -> None:
        self._ucds = dict(ucds or {})
        self._chars = frozenset(chars)

    def check(self, schema: pa.Schema) -> None:
        formless = [f"{field.name!r} ({field.type})" for field in schema if self._field(field) is None]
        if formless:
            raise SchemaMismatchError(
                f"export: VOTable has no form for {', '.join(formless)}; leave it out, or take parquet"
            )

    def write(
        self,
        file: BinaryIO,
        schema: pa.Schema,
        tables: Iterable[pa.Table],
        origin: Provenance,
        *,
        overflow: bool = False,
    ) -> int:
        """Write all rows; returns how many.

        Parameters
        ----------
        file, schema, tables, origin
            As of `TableWriter.write`.
        overflow : bool
            Whether rows are missing beyond these, which the file then says.
        """
        self.check(schema)
        file.write(self._head(schema, origin).encode())
        rows = 0
        for table in tables:
            for batch in table.to_batches(max_chunksize=50_000):
                file.write(self._rows(batch, schema))
                rows += batch.num_rows
        more = '<INFO name="QUERY_STATUS" value="OVERFLOW"/>\n' if overflow else ""
        file.write(f"</TABLEDATA></DATA>\n</TABLE>\n{more}</RESOURCE>\n</VOTABLE>\n".encode())
        return rows

    def _field(self, field: pa.Field) -> DeclaredField | None:
        declared = declared_field(field.type)
        return TEXT if declared is not None and field.name in self._chars else declared

    def _head(self, schema: pa.Schema, origin: Provenance) -> str:
        parts = [
            "<?xml version='1.0' encoding='UTF-8'?>\n",
            f'<VOTABLE version="1.4" xmlns="{NAMESPACE}">\n<RESOURCE type="results">\n',
            '<INFO name="QUERY_STATUS" value="OK"/>\n',
            *(
                f"<INFO name={quoted(name)} value={quoted(text)}/>\n"
                for name, text in origin.fields().items()
            ),
            f"<TABLE name={quoted(origin.catalog)}>\n",
        ]
        if origin.description:
            parts.append(f"<DESCRIPTION>{escaped(origin.description)}</DESCRIPTION>\n")
        parts += field_elements(self._described(field) for field in schema)
        parts.append("<DATA><TABLEDATA>\n")
        return "".join(parts)

    def _described(self, field: pa.Field) -> DescribedColumn:
        """A column with the UCD that is asked for, and how it is declared."""
        declared = self._field(field)
        assert declared is not None, f"{field} was checked"
        if (ucd := self._ucds.get(field.name)) is not None:
            field = field.with_metadata({**(field.metadata or {}), b"ucd": ucd.encode()})
        return DescribedColumn(field, declared)

    def _rows(self, batch: pa.RecordBatch, schema: pa.Schema) -> bytes:
        cells: list[pa.Array | str] = ["<TR>"]
        for field in schema:
            texts = _texts(batch.column(field.name), field.name)
            cells += ["<TD>", pc.fill_null(texts, ""), "</TD>"]
        cells.append("</TR>\n")
        columns = [pa.scalar(each, pa.large_string()) if isinstance(each, str) else each for each in cells]
        lines = pc.binary_join_element_wise(*columns, pa.scalar("", pa.large_string()))
        return b"".join(line.encode() for line in lines.to_pylist())


def votable_error(message: str) -> bytes:
    """A VOTable that tells of an error, as Simple Cone Search 1.03 and DALI 1.1 have it."""
    text = quoted(message)
    return (
        "<?xml version='1.0' encoding='UTF-8'?>\n"
        f'<VOTABLE version="1.4" xmlns="{NAMESPACE}">\n<RESOURCE type="results">\n'
        f'<INFO name="QUERY_STATUS" value="ERROR">{escaped(message)}</INFO>\n'
        f'<INFO ID="Error" name="Error" value={text}/>\n'
        "</RESOURCE>\n</VOTABLE>\n"
    ).encode()


def _texts(column: pa.Array, name: str) -> pa.Array:
    """The cells of a column, escaped; null is null."""
    if kinds.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if kinds.is_nested(kind):
        return _listed(column, name)
    if kinds.is_floating(kind):
        return _numbers(column)
    if is_bytes(kind):
        return hexadecimal(column)
    if kinds.is_duration(kind):
        column = column.view(pa.int64())
    texts = moment_texts(column, "Z") if kinds.is_timestamp(kind) else column.cast(pa.large_string())
    if kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_temporal(kind):
        texts = pc.replace_substring_regex(texts, _NO_XML, "\ufffd")
        for sign, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\r", "&#13;")):
            texts = pc.replace_substring(texts, sign, entity)
    return texts


def _numbers(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.large_string())
    for sign, written in _NO_NUMBERS:
        texts = pc.replace_substring(texts, sign, written)
    return texts


def _listed(column: pa.Array, name: str) -> pa.Array:
    """Lists of numbers as texts, with blanks between."""
    values = column.flatten()
    if kinds.is_floating(values.type):
        values = pc.fill_null(_numbers(values), "NaN")
    elif values.null_count:
        raise SchemaMismatchError(
            f"export: VOTable has no null in an array of integers, as column {name!r} has; leave it out, or "
            "take parquet"
        )
    else:
        values = values.cast(pa.large_string())
    lengths = pc.fill_null(pc.list_value_length(column), 0).cast(pa.int64())
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)])
    texts = pc.binary_join(pa.LargeListArray.from_arrays(offsets, values), pa.scalar(" ", pa.large_string()))
    return pc.if_else(pc.is_null(column), pa.scalar(None, pa.large_string()), texts)
