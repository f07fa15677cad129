"""CSV sources, plain or compressed: split by byte ranges, types found from all of the data."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ClassVar

import pyarrow as pa

from hipslake.errors import SchemaMismatchError
from hipslake.predicates.type_names import arrow_type
from hipslake.sources.compression import explained
from hipslake.sources.conforming import conform
from hipslake.sources.csv.header import CsvHeader, read_header
from hipslake.sources.csv.inference import (
    EVERYTHING,
    as_number,
    fits,
    inferred_field,
    join_inferred,
    may_be_hexadecimal,
    may_be_padded,
)
from hipslake.sources.csv.parsing import CsvParser
from hipslake.sources.csv.text_blocks import BLOCK_BYTES, TextBlock, TextSource
from hipslake.sources.file_listing import check_unchanged
from hipslake.sources.source_file import SourceFile, Split
from hipslake.sources.source_reader import HEADER_THREADS
from hipslake.sources.unification import unify
from hipslake.specs.source_spec import CsvOptions, SourceSpec

_PEEK_BYTES = 32 << 20  # of all files together
_PEEK_BLOCK = 1 << 20


class CsvSource(TextSource):
    """Reads CSV files."""

    format: ClassVar[str] = "csv"
    _options: CsvOptions

    def __init__(self, spec: SourceSpec) -> None:
        super().__init__(spec)
        self._types = {name: arrow_type(text) for name, text in self._options.types.items()}

    @property
    def _between(self) -> bytes:
        """What stands between values, and around them."""
        return (self._options.delimiter + (self._options.quote or "")).encode()

    @property
    def quote_of_lines(self) -> bytes | None:
        return (self._options.quote or "").encode() if self._options.newlines_in_values else None

    def schema(self, files: Sequence[SourceFile]) -> pa.Schema | None:
        if not self._types:
            return None
        with ThreadPoolExecutor(HEADER_THREADS) as pool:
            headers = list(pool.map(self._header, files))
        names = {name for header in headers if header for name in header.names}
        if not names <= self._types.keys():
            return None
        typed = [
            (file.uri, pa.schema([(name, self._types[name]) for name in header.names]))
            for file, header in zip(files, headers, strict=True)
            if header
        ]
        return self.unify(typed)

    def peek(self, files: Sequence[SourceFile], numbers: Collection[str] = ()) -> pa.Schema:
        blocks = max(1, _PEEK_BYTES // max(1, len(files)) // _PEEK_BLOCK)
        splits = [Split(ordinal=0, file=file, unit="bytes", start=0, stop=file.size) for file in files]
        with ThreadPoolExecutor(HEADER_THREADS) as pool:
            found = list(pool.map(lambda split: self._infer(split, blocks), splits))
        joined = unify(
            [(file.uri, schema) for file, (schema, _) in zip(files, found, strict=True)],
            self.spec.missing_columns,
            source=self.spec.uri,
            join=join_inferred,
        )
        self._check_types(joined)
        read_whole = all(whole for _, whole in found)
        return _final(joined, numbers) if read_whole else joined

    def infer(self, split: Split) -> pa.Schema:
        return self._infer(split)[0]

    def _infer(self, split: Split, most_blocks: int | None = None) -> tuple[pa.Schema, bool]:
        """The schema of a split, or of its first so many blocks; and whether these are all that it has."""
        check_unchanged(split.file)
        whole = True
        with explained(split.file), self.opened(split.file, split.point) as text:
            header = read_header(text, self._options, split.file.uri)
            if header is None:
                return pa.schema([]), whole
            parser = self._parser(split.file, header)
            names = [name for name in header.names if name not in self._types]
            held = dict.fromkeys(names, EVERYTHING)
            size = BLOCK_BYTES if most_blocks is None else _PEEK_BLOCK
            for number, block in enumerate(self.blocks(text, split, header.start, size) if names else ()):
                if number == most_blocks:
                    whole = False
                    break
                _narrow(held, block, parser, self._between)
        schema = pa.schema(
            [
                inferred_field(name, held[name]) if name in held else pa.field(name, self._types[name])
                for name in header.names
            ]
        )
        return schema, whole

    def unify(self, found: Sequence[tuple[str, pa.Schema]], numbers: Collection[str] = ()) -> pa.Schema:
        unified = unify(found, self.spec.missing_columns, source=self.spec.uri, join=join_inferred)
        self._check_types(unified)
        return _final(unified, numbers)

    def _check_types(self, unified: pa.Schema) -> None:
        if unknown := self._types.keys() - set(unified.names):
            raise SchemaMismatchError(
                f"source.options.types names {', '.join(sorted(unknown))}, but the columns are "
                f"{', '.join(unified.names)}"
            )

    def batches(self, split: Split, wanted: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
        with explained(split.file), self.opened(split.file, split.point) as text:
            header = read_header(text, self._options, split.file.uri)
            if header is None:
                return
            parser = self._parser(split.file, header)
            present = [name for name in wanted.names if name in header.names]
            types = {name: wanted.field(name).type for name in present}
            for block in self.blocks(text, split, header.start):
                # Without any wanted column the rows still count, so read one.
                table = parser.parse(block, present or header.names[:1], types)
                for batch in table.to_batches() if table is not None else ():
                    yield conform(batch, wanted, split.file.uri)

    def _header(self, file: SourceFile) -> CsvHeader | None:
        with explained(file), self.opened(file) as text:
            return read_header(text, self._options, file.uri)

    def _parser(self, file: SourceFile, header: CsvHeader) -> CsvParser:
        return CsvParser(header, self._options, file.uri, lambda offset: self.lines_before(file, offset))


def _final(unified: pa.Schema, numbers: Collection[str]) -> pa.Schema:
    fields = (as_number(field) if field.name in numbers else field for field in unified)
    return pa.schema([field.remove_metadata() for field in fields])


def _narrow(held: dict[str, frozenset[str]], block: TextBlock, parser: CsvParser, between: bytes) -> None:
    """Drop the types that do not hold every value of a block."""
    table = parser.parse(block, list(held), {})
    if table is None:
        return
    hexadecimal = may_be_hexadecimal(block.data)
    texts = _numbers_as_texts(table, block, parser) if may_be_padded(block.data, between) else {}
    for name in held:
        probe = partial(parser.probe, block, name)
        held[name] &= fits(table.column(name), hexadecimal, probe, texts.get(name))


def _numbers_as_texts(table: pa.Table, block: TextBlock, parser: CsvParser) -> dict[str, pa.ChunkedArray]:
    """The columns of a block that may be numbers, as they are written."""
    texts = {field.name: table.column(field.name) for field in table.schema if pa.types.is_string(field.type)}
    numbers = (pa.types.is_integer, pa.types.is_floating)
    names = [field.name for field in table.schema if any(is_a(field.type) for is_a in numbers)]
    written = parser.parse(block, names, dict.fromkeys(names, pa.string())) if names else None
    return texts | ({name: written.column(name) for name in names} if written is not None else {})
