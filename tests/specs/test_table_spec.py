"""The spec of a table: what is read is printed as it was written, and mistakes say their mend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hipslake.errors import SpecError
from hipslake.specs.partition_fields import PartitionField, SortField
from hipslake.specs.spec_folder import load_spec
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.table_writing import Duplicates, TableMode
from pydantic import ValidationError

WHOLE = """\
name: sources
source:
  files: {uri: "/survey/night={{ night }}/*.parquet", format: parquet}
table: survey.sources
partition: ["bucket[16](id)", year(ts), "healpix[5]"]
sort: [_healpix_29, ts desc]
mode: upsert
key: id
duplicates: last by ts
target_file_size: 64 MiB
schedule: "@daily"
"""


def spec_of(**given: Any) -> TableSpec:
    usual = {"name": "t", "source": {"catalog": "gaia_dr3"}, "table": "survey.t"}
    return TableSpec.model_validate(usual | given)


def written(folder: Path, text: str, name: str = "sources") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return path


def test_a_spec_file_is_read_and_printed_as_it_was_written(tmp_path: Path) -> None:
    spec = load_spec(written(tmp_path, WHOLE), TableSpec)
    printed = spec.model_dump(mode="json")
    assert printed["partition"] == ["bucket[16](id)", "year(ts)", "healpix[5]"]
    assert printed["sort"] == ["_healpix_29", "ts desc"]
    assert printed["duplicates"] == "last by ts"
    assert printed["target_file_size"] == "64 MiB"
    assert spec.key == ("id",)
    assert spec.mode is TableMode.UPSERT
    assert spec.needs_interval
    assert TableSpec.model_validate(printed) == spec


@pytest.mark.parametrize(
    ("given", "printed", "column", "iceberg", "name"),
    [
        ("night", "night", "night", "identity", "night"),
        ("identity( night )", "night", "night", "identity", "night"),
        ("bucket[16](id)", "bucket[16](id)", "id", "bucket[16]", "id_bucket_16"),
        ("Bucket [ 16 ] (id)", "bucket[16](id)", "id", "bucket[16]", "id_bucket_16"),
        ("truncate[4](name)", "truncate[4](name)", "name", "truncate[4]", "name_trunc_4"),
        ("years(ts)", "year(ts)", "ts", "year", "ts_year"),
        ("hour(ts)", "hour(ts)", "ts", "hour", "ts_hour"),
        ("void(x)", "void(x)", "x", "void", "x_null"),
        ("healpix[5]", "healpix[5]", "_healpix_5", "identity", "_healpix_5"),
        ("healpix[0](hpx)", "healpix[0](hpx)", "_healpix_0", "identity", "_healpix_0"),
    ],
)
def test_partition_fields_are_texts(given: str, printed: str, column: str, iceberg: str, name: str) -> None:
    field = PartitionField.parse(given)
    assert (str(field), field.column, field.iceberg_transform, field.name) == (printed, column, iceberg, name)
    assert PartitionField.parse(printed) == field


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("", "is empty"),
        ("bucket(id)", r"bucket needs a number; write bucket\[16\]\(id\)"),
        ("bucket[0](id)", "the number is 1 or more"),
        ("year[3](ts)", r"year takes no number; write year\(ts\)"),
        ("week(ts)", "there is no transform 'week'; there are identity, bucket"),
        ("bucket[16]id", "is no partition field; write 'night'"),
        ("healpix[30]", "orders end at 29"),
        ("truncate[3000000000](x)", "less than or equal to 2147483647"),
    ],
)
def test_a_text_that_is_no_field_says_what_would_be(given: str, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        PartitionField.parse(given)


@pytest.mark.parametrize(
    ("given", "printed", "descending", "nulls_first"),
    [
        ("ra", "ra", False, True),
        ("ra asc nulls last", "ra nulls last", False, False),
        ("ts DESC", "ts desc", True, False),
        ("day(ts) desc nulls first", "day(ts) desc nulls first", True, True),
    ],
)
def test_sort_fields_are_texts(given: str, printed: str, descending: bool, nulls_first: bool) -> None:
    field = SortField.model_validate(given)
    assert (str(field), field.descending, field.nulls_first) == (printed, descending, nulls_first)


def test_duplicates_are_a_text() -> None:
    assert Duplicates.model_validate("error").last_by is None
    assert str(Duplicates.model_validate("LAST  by updated_at")) == "last by updated_at"
    with pytest.raises(ValidationError, match="neither 'error' nor 'last by <column>'"):
        Duplicates.model_validate("first by x")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"cluster_by": ["ra", "ra"]}, "cluster_by: ra stands twice"),
        ({"cluster_by": ["ra"], "format": "delta"}, "cluster_by: Delta tables are not kept clustered"),
        ({"cluster_by": ["ra"], "sort": ["ra"]}, "sort: rows of a table with 'cluster_by' follow a curve"),
        ({"cluster_by": ["ra"], "partition": ["ra"]}, "cluster_by: the table is partitioned by ra"),
        (
            {"cluster_by": [f"c{at}" for at in range(64)]},
            "cluster_by: names 64 columns; there is room for 63",
        ),
        ({"clustering": {"curve": "zorder"}}, "clustering: is of a table with 'cluster_by'"),
        ({"cluster_by": ["ra"], "clustering": {"max_amplification": 0.5}}, "greater than or equal to 1"),
        ({"statistics": {"ndv": []}}, "ndv"),
        ({"statistics": {}}, "ndv"),
        ({"statistics": {"ndv": ["id", "x", "id"]}}, "ndv: id stands twice"),
        ({"statistics": {"ndv": "id", "histogram": True}}, "histogram"),
        ({"statistics": {"ndv": "id"}, "format": "delta"}, "statistics: are files of Iceberg tables"),
        ({"mode": "upsert"}, "key: mode upsert replaces rows of the same key"),
        ({"key": ["id"]}, "key: mode append does not look at it"),
        ({"duplicates": "last by ts"}, "duplicates: only mode upsert has a key"),
        ({"mode": "overwrite-interval"}, "interval: mode overwrite-interval, and no other"),
        ({"interval": "ts"}, "interval: mode overwrite-interval, and no other"),
        (
            {"mode": "overwrite-interval", "interval": "ts"},
            "source: mode overwrite-interval needs rows of an",
        ),
        ({"table": "t"}, "'t' is no table; write namespace.table"),
        ({"target_file_size": "1M rows"}, "counts rows; write bytes, such as '128 MiB'"),
        ({"target_file_size": "10 B"}, "take 1 KiB or more"),
        ({"partition": ["x", "identity(x)"]}, "partition: x stands twice"),
        ({"partition": ["year(ts)", "day(ts)"]}, "divided by two periods"),
        ({"source": {"uri": "x"}}, "give either 'catalog' .* or 'files'"),
        (
            {"source": {"catalog": "x", "rows": "increment", "version": 3}},
            "an increment is taken from the newest",
        ),
        ({"source": {"catalog": "x", "columns": []}}, "columns: is empty; leave it out for all"),
        ({"properties": {"format-version": "3"}}, "tables of format-version 1 and 2 can be written"),
        ({"sort": [" "]}, "is empty; write a column"),
        ({"iceberg": {"type": "rest"}}, "a REST catalog has an address; give uri, or connection"),
        (
            {"iceberg": {"uri": "postgresql+psycopg2://db/x", "connection": "lake"}},
            "the connection holds the address",
        ),
        ({"iceberg": {"uri": "postgresql+psycopg2://me:secret@db/x"}}, "holds a password"),
        ({"iceberg": {"uri": "postgresql://me:pa/ss@db/x"}}, "uri: holds a password"),
        ({"iceberg": {"uri": "postgresql://me:se@cret@db/x"}}, "uri: holds a password"),
        ({"iceberg": {"uri": "postgresql://db/x?user=me&password=secret"}}, "uri: holds password"),
        ({"iceberg": {"type": "rest", "uri": "https://secret@db/x"}}, "uri: holds a password"),
        ({"iceberg": {"warehouse": "s3://key:secret@bucket"}}, "warehouse: holds a password"),
        ({"iceberg": {"properties": {"x": "http://a:secret@b"}}}, "properties: x: holds a password"),
        (
            {"iceberg": {"name": "lake", "properties": {"s3.secret-access-key": "x"}}},
            "secret, and would stand in run folders; set PYICEBERG_CATALOG__LAKE__S3__SECRET_ACCESS_KEY",
        ),
        ({"iceberg": {"type": "rest", "uri": "http://c", "properties": {"token": "x"}}}, "token is a secret"),
    ],
)
def test_mistakes_say_their_mend(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told) as raised:
        spec_of(**given)
    assert "pa/ss" not in str(raised.value)
    assert "secret@" not in str(raised.value)
    assert "=secret" not in str(raised.value)


def test_mistakes_in_a_file_have_their_line(tmp_path: Path) -> None:
    text = WHOLE.replace("year(ts)", "week(ts)").replace("key: id\n", "")
    with pytest.raises(
        SpecError, match=r"sources.yaml:5: partition\[1\]: 'week\(ts\)': there is no transform"
    ):
        load_spec(written(tmp_path, text), TableSpec)
    text = WHOLE.replace("uri:", "url:")
    with pytest.raises(SpecError, match=r"sources.yaml:3: source.files.url: unknown key; did you mean 'uri'"):
        load_spec(written(tmp_path, text), TableSpec)


def test_overrides_of_a_run_are_validated() -> None:
    assert spec_of().with_overrides(target_file_size="1 MiB").target_file_size.value == 1 << 20
    assert spec_of().with_overrides(target_file_size=None) == spec_of()
    with pytest.raises(SpecError, match="t: target_file_size: "):
        spec_of().with_overrides(target_file_size="many")


def test_the_fingerprint_does_not_know_the_schedule() -> None:
    assert spec_of(schedule="@daily").fingerprint_text() == spec_of().fingerprint_text()
    assert spec_of(partition=["x"]).fingerprint_text() != spec_of().fingerprint_text()


@pytest.mark.parametrize(
    "column", ["bucket[2](id)", "a(b", "night desc", "x nulls first", "identity(x)", "a b"]
)
@pytest.mark.parametrize("kind", [PartitionField, SortField])
def test_columns_whose_names_look_like_more_are_read_as_they_are_printed(
    column: str, kind: type[PartitionField] | type[SortField]
) -> None:
    field = PartitionField.model_validate({"transform": "identity", "source": column})
    given = field if kind is PartitionField else SortField(field=field, descending=True)
    assert kind.model_validate(str(given)) == given
    assert kind.model_validate_json(given.model_dump_json()) == given
