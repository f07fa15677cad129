"""Schemas of column groups."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hipslake.catalog.schema import check_columns, group_schema, hats_position
from hipslake.errors import ReservedColumnError, SchemaMismatchError
from hipslake.specs.catalog_spec import CatalogSpec

SOURCE = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={"description": "source id"}),
        pa.field("mag", pa.float32(), metadata={"unit": "mag"}),
        pa.field("ra", pa.float64()),
        pa.field("dec", pa.float64()),
        pa.field("tags", pa.list_(pa.string())),
    ],
    metadata={"pandas": "{}"},
)
TWO_GROUPS = ({"name": "main", "columns": ["ra", "dec", "id"]}, {"name": "details", "columns": "*"})


def spec(**changes: Any) -> CatalogSpec:
    fields = {
        "name": "stars",
        "source": {"uri": "x/*.parquet", "format": "parquet"},
        "position": {"ra": "ra", "dec": "dec"},
    }
    return CatalogSpec.model_validate(fields | changes)


def test_one_group_has_the_index_first_and_every_column_in_source_order() -> None:
    assert group_schema(spec(), SOURCE, "main").names == ["_healpix_29", "id", "mag", "ra", "dec", "tags"]


def test_fields_keep_type_nullability_and_metadata_but_the_schema_loses_that_of_other_files() -> None:
    schema = group_schema(spec(), SOURCE, "main")
    assert all(schema.field(name).equals(SOURCE.field(name), check_metadata=True) for name in SOURCE.names)
    assert schema.field("_healpix_29").type == pa.int64()
    assert schema.metadata is None


def test_several_groups_store_row_last_and_keep_source_order() -> None:
    two = spec(layout="hipscat", column_groups=TWO_GROUPS)
    assert group_schema(two, SOURCE, "main").names == ["_healpix_29", "id", "ra", "dec", "_row"]
    assert group_schema(two, SOURCE, "details").names == ["_healpix_29", "mag", "tags", "_row"]


def test_layout_hats_repeats_the_position_in_every_group() -> None:
    details = group_schema(spec(column_groups=TWO_GROUPS), SOURCE, "details")
    assert details.names == ["_healpix_29", "mag", "ra", "dec", "tags", "_row"]


GROUPS = {
    "the first names it": [["id", "ra", "dec"], "*"],
    "the second names it": [["id", "mag"], ["ra", "dec", "tags"]],
    "the first takes all others": ["*", ["mag"]],
    "the first takes all others, the second names it": ["*", ["ra", "dec"]],
    "the second takes all others": [["id"], "*"],
    "it is torn apart": [["id", "ra"], "*"],
    "a third takes all others": [["id"], ["mag"], "*"],
}
OBJECTS = {"position_from": {"catalog": "objects", "on": {"id": "id"}}}


@pytest.mark.parametrize("groups", list(GROUPS))
@pytest.mark.parametrize(
    ("fields", "added"),
    [
        ({"position": {"ra": "ra", "dec": "dec", "unit": "rad"}}, ["ra_icrs", "dec_icrs"]),
        ({"position": {"ra": "ra", "dec": "dec", "frame": "galactic"}}, ["ra_icrs", "dec_icrs"]),
        ({"source": "decimal"}, ["ra_icrs", "dec_icrs"]),
        (OBJECTS, ["ra_object", "dec_object"]),
        ({}, []),
    ],
)
def test_every_group_has_one_position_for_readers_and_one_group_that_of_the_source(
    groups: str, fields: dict[str, Any], added: list[str]
) -> None:
    source = SOURCE
    if fields.get("source") == "decimal":
        fields, source = {}, SOURCE.set(2, pa.field("ra", pa.decimal128(12, 8)))
    named = [{"name": name, "columns": columns} for name, columns in zip("abc", GROUPS[groups], strict=False)]
    many = spec(column_groups=named, **fields)
    schemas = check_columns(many, source)
    expected = added or ["ra", "dec"]
    for schema in schemas.values():
        assert [name for name in schema.names if name in expected] == expected
        assert hats_position(many, schema) == tuple(expected)
    if added:
        holding = [name for name, schema in schemas.items() if {"ra", "dec"} & set(schema.names)]
        assert holding == ["b" if "second names it" in groups else "a"]
        assert {"ra", "dec"} <= set(schemas[holding[0]].names)
    others = [name for schema in schemas.values() for name in schema.names if name in ("id", "mag", "tags")]
    assert len(others) == len(set(others))


@pytest.mark.parametrize("position", [{"unit": "rad"}, {"frame": "galactic"}, {"frame": "fk5"}])
def test_layout_hats_adds_icrs_degrees_where_the_source_has_none(position: dict[str, str]) -> None:
    columns = {"position": {"ra": "ra", "dec": "dec", **position}}
    schema = group_schema(spec(**columns), SOURCE, "main")
    assert schema.names[-2:] == ["ra_icrs", "dec_icrs"]
    assert schema.field("ra_icrs").type == pa.float64()
    assert schema.field("ra_icrs").metadata[b"unit"] == b"deg"
    assert hats_position(spec(**columns), SOURCE) == ("ra_icrs", "dec_icrs")
    hipscat = spec(layout="hipscat", **columns)
    assert "ra_icrs" not in group_schema(hipscat, SOURCE, "main").names
    assert hats_position(hipscat, SOURCE) is None


def test_layout_hats_adds_floats_where_the_position_is_decimal() -> None:
    decimal = SOURCE.set(2, pa.field("ra", pa.decimal128(12, 8)))
    assert group_schema(spec(), decimal, "main").names[-2:] == ["ra_icrs", "dec_icrs"]


def test_a_column_that_the_catalog_adds_is_refused_in_the_source_whatever_its_case() -> None:
    radians = spec(position={"ra": "ra", "dec": "dec", "unit": "rad"})
    taken = SOURCE.append(pa.field("RA_ICRS", pa.float64()))
    with pytest.raises(ReservedColumnError, match=r"'RA_ICRS'.*rename it"):
        group_schema(radians, taken, "main")
    assert "RA_ICRS" in group_schema(spec(), taken, "main").names  # nothing is added, so nothing clashes


def test_a_missing_column_is_told_with_its_group_and_the_nearest_names() -> None:
    wrong = spec(column_groups=[{"name": "main", "columns": ["ra", "dec", "MAG"]}])
    with pytest.raises(SchemaMismatchError, match=r"column group 'main'.*'MAG' \(did you mean 'mag'\?\)"):
        group_schema(wrong, SOURCE, "main")


def test_missing_position_and_co_partitioned_columns_are_told() -> None:
    with pytest.raises(SchemaMismatchError, match=r"position.*'raj2000'.*its columns are dec, id, mag"):
        check_columns(spec(position={"ra": "raj2000", "dec": "dec"}), SOURCE)
    with pytest.raises(SchemaMismatchError, match=r"co_partitioned.*'object_id'"):
        check_columns(spec(co_partitioned=["object_id"]), SOURCE)


def test_positions_torn_apart_between_groups_are_refused() -> None:
    torn = [{"name": "main", "columns": ["ra"]}, {"name": "details", "columns": "*"}]
    with pytest.raises(SchemaMismatchError, match="no column group stores both"):
        check_columns(spec(layout="hipscat", column_groups=torn), SOURCE)
    assert set(check_columns(spec(column_groups=torn), SOURCE)) == {"main", "details"}  # hats repeats both
