"""How the files of a table are written, by its properties; what cannot be done as they say is refused.

docs/tables.md lists them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    StatisticsCollector,
    compute_statistics_plan,
    parquet_path_to_id_mapping,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import BinaryType, BooleanType, StringType

from hipslake.errors import SpecError

TARGET_BYTES = "write.target-file-size-bytes"
"""The property of a table that says how large its data files should be."""

PARQUET, DELETE_PARQUET = "write.parquet.", "write.delete.parquet."
"""How properties of Parquet files begin; the second ones come first for files of deletes."""

DELETE_FORMAT, GRANULARITY = "write.delete.format.default", "write.delete.granularity"
_FORMAT = "write.format.default"
_MODE, _MODE_OF, _MOST_INFERRED = (
    f"write.metadata.metrics.{name}" for name in ("default", "column.", "max-inferred-column-defaults")
)
_BLOOM, _FPP, _MEASURED = "bloom-filter-enabled.column.", "bloom-filter-fpp.column.", "stats-enabled.column."
_ROW_GROUP_ROWS = 1 << 18
_BLOOM_BYTES, _BLOOM_FPP = 1 << 20, 0.01
_CODECS = ("uncompressed", "snappy", "gzip", "brotli", "lz4", "zstd")
_LEVELLED = ("gzip", "brotli", "zstd")
_PAGE_VERSIONS = {"v1": "1.0", "v2": "2.0"}
_WITHOUT_ANSWER = {
    "write.location-provider.impl": "names a class that says where files go, and it is not loaded here",
    "write.py-location-provider.impl": "names a class that says where files go, and it is not loaded here",
    "write.object-storage.path": "is given up by Iceberg; set write.data.path in its place",
    "write.folder-storage.path": "is given up by Iceberg; set write.data.path in its place",
    "encryption.key-id": "has the files of the table encrypted, which is not done here",
}


def check_properties(table: Table) -> None:
    """Look that the files of a table can be written as its properties say.

    Raises
    ------
    SpecError
        They cannot; the message names the property.
    """
    given, name = table.properties, ".".join(table.name())
    for each, why in _WITHOUT_ANSWER.items():
        if given.get(each):
            raise SpecError(
                f"table {name}: its property {each} {why}; remove it, or write the table with another engine"
            )
    check_format(name, given, _FORMAT)
    try:
        ParquetSettings.of(given)
        ParquetSettings.of(given, of_deletes=True)
        statistics_plan(table.schema(), given, ())
    except SpecError as error:
        raise SpecError(f"table {name}: {error}") from None


def check_format(name: str, properties: Mapping[str, str], which: str) -> None:
    """Raise `SpecError` if files are to be of another format than Parquet."""
    told = properties.get(which, "parquet")
    if told.strip().lower() != "parquet":
        raise SpecError(
            f"table {name}: its property {which} is {told!r}, and only Parquet is written; set it to "
            "parquet, or write the table with another engine"
        )


def target_file_bytes(table: Table) -> int | None:
    """How large data files of a table should be; None if it does not say it.

    Raises
    ------
    SpecError
        Its property is no number of bytes.
    """
    try:
        return _number(table.properties, TARGET_BYTES)
    except SpecError as error:
        raise SpecError(
            f"table {'.'.join(table.name())}: {error}, or give 'target_file_size' in the spec"
        ) from None


@dataclass(frozen=True)
class ParquetSettings:
    """How Parquet files are written.

    Attributes
    ----------
    codec : str
    level : int or None
    row_group_rows : int
        The most rows of a row group.
    row_group_bytes : int or None
        About the most bytes of one, before it is encoded.
    page_bytes, page_rows, dictionary_bytes : int or None
    page_version : str
        As pyarrow names it.
    bloom_filters : tuple of (str, float)
        Columns that get a Bloom filter, by name, and its false positive probability.
    bloom_bytes : int
        The most bytes of one.
    unmeasured : tuple of str
        Columns without statistics in the file.
    """

    codec: str
    level: int | None
    row_group_rows: int
    row_group_bytes: int | None
    page_bytes: int | None
    page_rows: int | None
    dictionary_bytes: int | None
    page_version: str
    bloom_filters: tuple[tuple[str, float], ...]
    bloom_bytes: int
    unmeasured: tuple[str, ...]

    @classmethod
    def of(cls, properties: Mapping[str, str], *, of_deletes: bool = False) -> ParquetSettings:
        """Those of the properties of a table; `of_deletes`: for files that delete rows.

        Raises
        ------
        SpecError
            A property has no meaning.
        """
        begins = (PARQUET, DELETE_PARQUET) if of_deletes else (PARQUET,)  # the second ones count
        given = {
            PARQUET + key.removeprefix(begin): told
            for begin in begins
            for key, told in properties.items()
            if key.startswith(begin)
        }
        codec = _chosen(given, "compression-codec", "zstd", _CODECS)
        return cls(
            codec=codec,
            level=_level(given, codec),
            row_group_rows=_number(given, f"{PARQUET}row-group-limit") or _ROW_GROUP_ROWS,
            row_group_bytes=_number(given, f"{PARQUET}row-group-size-bytes"),
            page_bytes=_number(given, f"{PARQUET}page-size-bytes"),
            page_rows=_number(given, f"{PARQUET}page-row-limit"),
            dictionary_bytes=_number(given, f"{PARQUET}dict-size-bytes"),
            page_version=_PAGE_VERSIONS[_chosen(given, "page-version", "v1", _PAGE_VERSIONS)],
            bloom_filters=tuple(
                (name, _probability(given, name))
                for name, told in _of_columns(given, _BLOOM)
                if told.strip().lower() == "true"
            ),
            bloom_bytes=_number(given, f"{PARQUET}bloom-filter-max-bytes") or _BLOOM_BYTES,
            unmeasured=tuple(
                name for name, told in _of_columns(given, _MEASURED) if told.strip().lower() == "false"
            ),
        )

    def rows_per_group(self, rows: pa.Table) -> int:
        """How many rows a row group of a file of some rows has at most."""
        if self.row_group_bytes is None or not rows.num_rows:
            return self.row_group_rows
        fitting = self.row_group_bytes * rows.num_rows // max(rows.nbytes, 1)
        return max(1, min(self.row_group_rows, fitting))

    def told(self, rows: pa.Table, schema: Schema | None = None) -> dict[str, Any]:
        """What pyarrow's writer is told.

        Parameters
        ----------
        rows : pyarrow.Table
            Of the file.
        schema : pyiceberg.schema.Schema, optional
            Of the table, where columns are named; those that it has not are passed over.
        """
        told: dict[str, Any] = {
            "compression": "none" if self.codec == "uncompressed" else self.codec,
            "compression_level": self.level,
            "data_page_size": self.page_bytes,
            "max_rows_per_page": self.page_rows,
            "dictionary_pagesize_limit": self.dictionary_bytes,
            "data_page_version": self.page_version,
        }
        if schema is not None and self.unmeasured:
            without = set(_leaves(schema, self.unmeasured))
            told["write_statistics"] = [
                path for path in parquet_path_to_id_mapping(schema) if path not in without
            ]
        if schema is not None and self.bloom_filters:
            count = max(1, min(rows.num_rows, self.rows_per_group(rows)))
            told["bloom_filter_options"] = {
                path: {"ndv": min(count, self._most_values(probability)), "fpp": probability}
                for name, probability in self.bloom_filters
                for path in _leaves(schema, [name], filtered=True)
            }
        return told

    def _most_values(self, probability: float) -> int:
        """How many values a filter of the most bytes takes; its size is a power of two."""
        size = 1 << max(0, int(math.log2(self.bloom_bytes)))
        return max(1, int(-size * math.log(1 - probability ** (1 / 8))))


def statistics_plan(
    schema: Schema, properties: Mapping[str, str], sorted_by: Collection[int]
) -> dict[int, StatisticsCollector]:
    """Which counts and bounds a manifest has of the columns of a file, by their field ids.

    Parameters
    ----------
    schema : pyiceberg.schema.Schema
    properties : mapping of str to str
        Of the table.
    sorted_by : collection of int
        Columns of the table's sort order; they have bounds, unless a property of their own says otherwise.

    Raises
    ------
    SpecError
        A property has no meaning.
    """
    most = _number(properties, _MOST_INFERRED, least=0)
    try:
        plan = compute_statistics_plan(schema, dict(properties))
    except ValueError as error:
        raise SpecError(
            f"its properties {_MODE} and {_MODE_OF}* can be none, counts, full or truncate(<length>): {error}"
        ) from None
    by_depth = sorted(plan, key=lambda number: plan[number].column_name.count("."))
    left_out = set() if most is None or _MODE in properties else set(by_depth[most:])
    for number, each in plan.items():
        if f"{_MODE_OF}{each.column_name}" in properties:
            continue
        if number in left_out:
            plan[number] = replace(each, mode=MetricsMode(MetricModeTypes.NONE))
        if number in sorted_by and plan[number].mode.type in (MetricModeTypes.NONE, MetricModeTypes.COUNTS):
            plan[number] = replace(each, mode=_bounded(each))
    return plan


def _bounded(column: StatisticsCollector) -> MetricsMode:
    if isinstance(column.iceberg_type, StringType | BinaryType):
        return MetricsMode(MetricModeTypes.TRUNCATE, 16)
    return MetricsMode(MetricModeTypes.FULL)


def _leaves(schema: Schema, names: Iterable[str], *, filtered: bool = False) -> list[str]:
    """The paths of columns in a file; `filtered`: of those that a Bloom filter can be made of."""
    numbers = set()
    for name in names:
        try:
            field = schema.find_field(name)
        except ValueError:
            continue
        if not (filtered and isinstance(field.field_type, BooleanType)):
            numbers.add(field.field_id)
    return [path for path, number in parquet_path_to_id_mapping(schema).items() if number in numbers]


def _of_columns(given: Mapping[str, str], kind: str) -> list[tuple[str, str]]:
    begin = PARQUET + kind
    return sorted((key.removeprefix(begin), told) for key, told in given.items() if key.startswith(begin))


def _number(given: Mapping[str, str], name: str, *, least: int = 1) -> int | None:
    told = given.get(name)
    if told is None:
        return None
    if not told.strip().isdecimal() or int(told) < least:
        raise SpecError(f"its property {name} is {told!r}, no whole number from {least} on; mend it")
    return int(told)


def _chosen(given: Mapping[str, str], name: str, default: str, known: Iterable[str]) -> str:
    told = given.get(PARQUET + name, default)
    if told.strip().lower() not in known:
        raise SpecError(f"its property {PARQUET}{name} is {told!r}; it can be {', '.join(known)}. Mend it")
    return told.strip().lower()


def _level(given: Mapping[str, str], codec: str) -> int | None:
    told = given.get(f"{PARQUET}compression-level")
    if not told or codec not in _LEVELLED:
        return None
    least, most = pa.Codec.minimum_compression_level(codec), pa.Codec.maximum_compression_level(codec)
    if not re.fullmatch(r"-?\d+", told.strip()) or not least <= int(told) <= most:
        raise SpecError(
            f"its property {PARQUET}compression-level is {told!r}, no level of {codec}: they go from "
            f"{least} to {most}; mend it"
        )
    return int(told)


def _probability(given: Mapping[str, str], column: str) -> float:
    name = f"{PARQUET}{_FPP}{column}"
    told = given.get(name, str(_BLOOM_FPP))
    try:
        found = float(told)
    except ValueError:
        found = 0.0
    if not 0 < found < 1:
        raise SpecError(f"its property {name} is {told!r}, no number between 0 and 1; mend it")
    return found
