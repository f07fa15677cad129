"""Avro sources: object container files. Many tasks read their blocks, and records become flat columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any, ClassVar

import pyarrow as pa

from hipslake.errors import CorruptFileError
from hipslake.optional_packages import imported
from hipslake.sources.avro.container import AvroBlock, blocks, read_header
from hipslake.sources.avro.fields import AvroField, as_columns, columns_of, fields_of, pruned
from hipslake.sources.compression import explained
from hipslake.sources.conforming import conform
from hipslake.sources.distinct_names import check_distinct
from hipslake.sources.file_listing import located
from hipslake.sources.source_file import SourceFile, Split
from hipslake.sources.source_reader import BATCH_BYTES, SPLIT_BYTES, Columns, DescribedSource
from hipslake.specs.source_spec import AvroOptions

_BATCH_BYTES = BATCH_BYTES // 16  # of encoded records: as Python's objects they are many times as large


class AvroSource(DescribedSource[Columns]):
    """Reads Avro object container files.

    A split has the blocks that start in its bytes. Records are decoded by fastavro.
    """

    format: ClassVar[str] = "avro"
    _options: AvroOptions

    def splits(self, files: Sequence[SourceFile], target_bytes: int = SPLIT_BYTES) -> list[Split]:
        found: list[Split] = []
        for file in files:
            for start in range(0, file.size, max(target_bytes, 1)):
                stop = min(start + target_bytes, file.size)
                found.append(Split(ordinal=len(found), file=file, unit="bytes", start=start, stop=stop))
        return found

    def read_head(self, file: SourceFile) -> Columns:
        storage, name = located(file)
        with explained(file), storage.open(name) as data:
            header = read_header(data, file)
        if header is None:
            return Columns(pa.schema([]))
        schema = columns_of(fields_of(header.schema, file.uri), self._options.separator)
        check_distinct(schema.names, f"{file.uri}: names joined by {self._options.separator!r}")
        return Columns(schema)

    def batches(self, split: Split, wanted: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
        file, separator = split.file, self._options.separator
        storage, name = located(file)
        with explained(file), storage.open(name) as data:
            header = read_header(data, file)
            if header is None:
                return
            every = fields_of(header.schema, file.uri)
            fields = pruned(every, wanted.names, separator) or every[:1]  # without any, the rows still count
            decoder = _Decoder(every, fields, file)
            held: list[Any] = []
            size = 0
            for block in blocks(data, header, file, split.start, split.stop):
                for record in decoder.records(block):
                    held.append(record)
                    if len(held) == batch_rows:
                        yield conform(decoder.columns(held, separator, block), wanted, file.uri)
                        held, size = [], 0
                size += len(block.data)
                if size >= _BATCH_BYTES and held:
                    yield conform(decoder.columns(held, separator, block), wanted, file.uri)
                    held, size = [], 0
            if held:
                yield conform(decoder.columns(held, separator, None), wanted, file.uri)


class _Decoder:
    """Decodes some fields of the records of a file."""

    def __init__(self, every: tuple[AvroField, ...], fields: tuple[AvroField, ...], file: SourceFile) -> None:
        fastavro = imported("fastavro", "Reading Avro files", install="'hipslake[avro]'")
        self._read = fastavro.schemaless_reader
        self._written = fastavro.parse_schema(_record_of(every))
        self._wanted = fastavro.parse_schema(_record_of(fields)) if fields != every else None
        self._fields, self._file = fields, file

    def records(self, block: AvroBlock) -> Iterator[Any]:
        """The records of a block."""
        data = BytesIO(block.data)
        for number in range(block.records):
            try:
                yield self._read(data, self._written, self._wanted)
            except MemoryError:
                raise
            except Exception as error:
                raise self._bad(block, f"record {number + 1} of {block.records}", repr(error)) from None
        if rest := len(block.data) - data.tell():
            raise self._bad(block, f"what follows its {block.records} records", f"{rest} bytes are left over")

    def columns(self, records: list[Any], separator: str, block: AvroBlock | None) -> pa.RecordBatch:
        """Some records as columns."""
        try:
            return as_columns(records, self._fields, separator)
        except (pa.ArrowException, ValueError, OverflowError, TypeError) as error:
            where = f" before byte {block.start + len(block.data)}" if block else ""
            raise CorruptFileError(
                f"{self._file.uri}: a value{where} is not what the schema says: {error}; replace the file"
            ) from None

    def _bad(self, block: AvroBlock, what: str, why: str) -> CorruptFileError:
        where = f"{self._file.uri}: the block at byte {block.start}"
        return CorruptFileError(f"{where}: {what} cannot be read ({why}); replace the file")


def _record_of(fields: tuple[AvroField, ...]) -> dict[str, Any]:
    written = [{"name": field.name, "type": field.encoded} for field in fields]
    return {"type": "record", "name": "row", "fields": written}
