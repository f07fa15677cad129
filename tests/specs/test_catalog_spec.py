"""The catalog spec: what it refuses, what overrides do, and that it survives its own JSON."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hipslake.errors import SpecError
from hipslake.specs.catalog_spec import CatalogSpec, Layout
from hipslake.specs.source_spec import FORMATS, CsvOptions, ParquetOptions, SourceSpec
from hipslake.specs.threshold import Threshold
from pydantic import ValidationError


def spec(**keys: Any) -> CatalogSpec:
    base: dict[str, Any] = {
        "name": "stars",
        "source": {"uri": "/data/*.parquet", "format": "parquet"},
        "position": {"ra": "ra", "dec": "dec"},
    }
    return CatalogSpec.model_validate({**base, **keys})


def test_defaults_are_one_group_with_everything_in_hats() -> None:
    plain = spec()
    assert plain.layout is Layout.HATS
    assert plain.threshold_of("main") == Threshold.parse("1M rows")
    assert plain.group("main").columns == "*"
    assert plain.source.options == ParquetOptions()


def test_groups_have_their_own_thresholds_or_the_catalogs() -> None:
    two = spec(
        threshold="5 MiB",
        column_groups=[{"name": "main", "columns": ["ra", "dec"], "threshold": "1 MiB"}, {"name": "rest"}],
    )
    assert str(two.threshold_of("main")) == "1 MiB"
    assert str(two.threshold_of("rest")) == "5 MiB"
    with pytest.raises(KeyError, match="main, rest"):
        two.group("mane")


def test_margins_are_a_list_of_distances_or_one() -> None:
    assert spec().margin.arcsec == ()
    assert spec(margin={"arcsec": 10}).margin.arcsec == (10.0,)
    both = spec(margin={"arcsec": [10, 0.25]})
    assert both.margin.arcsec == (10.0, 0.25)
    assert CatalogSpec.model_validate_json(both.model_dump_json()) == both


def test_names_and_columns_that_only_others_may_not_have() -> None:
    groups = [{"name": "indices"}, {"name": "index", "columns": ["mag"]}]
    assert spec(column_groups=groups).index == ()
    assert spec(column_groups=groups[:1], index=["id"]).index == ("id",)
    assert spec(column_groups=groups, index=["id"], layout="hipscat").index == ("id",)
    seen = [
        {"name": "main"},
        {"name": "seen", "columns": ["ra", "dec"]},
    ]  # the objects' places are everywhere
    placed = {"position_from": {"catalog": "objects", "on": {"object_id": "id"}}}
    assert spec(column_groups=seen, layout="hipscat", margin={"arcsec": 10}, **placed).margin.arcsec == (
        10.0,
    )


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"name": "Stars"}, "should match pattern"),
        ({"margin": {"arcsec": [10, 10.0]}}, "a margin stands twice: 10, 10 arcsec"),
        ({"margin": {"arcsec": [0]}}, "a margin of 0 arcsec: take 0.001 to 36000 arcsec"),
        ({"margin": {"arcsec": [10, -1]}}, "a margin of -1 arcsec"),
        ({"margin": {"arcsec": [36001]}}, "10 degrees"),
        ({"margin": {"arcsec": [float("nan")]}}, "a margin of nan arcsec"),
        ({"margin": {"arcsec": ["wide"]}}, "valid number"),
        ({"margin": {"radius": [10]}}, "Extra inputs"),
        (
            {
                "margin": {"arcsec": [10]},
                "column_groups": [{"name": "main"}, {"name": "main_10arcs", "columns": ["mag"]}],
            },
            "main_10arcs has the name of a margin",
        ),
        (
            {
                "layout": "hipscat",
                "margin": {"arcsec": [10]},
                "column_groups": [{"name": "light", "columns": ["mag"]}, {"name": "main"}],
            },
            "lacks column dec, ra",
        ),
        (
            {
                "layout": "hipscat",
                "margin": {"arcsec": [10]},
                "column_groups": [{"name": "main"}, {"name": "place", "columns": ["ra", "dec"]}],
            },
            "lacks column dec, ra",
        ),
        (
            {"index": ["id"], "column_groups": [{"name": "main"}, {"name": "index_id", "columns": ["mag"]}]},
            "index_id has the name of an index",
        ),
        (
            {"index": ["10arcs"], "margin": {"arcsec": [10]}, "column_groups": [{"name": "index"}]},
            "index has the name of an index",
        ),
        ({"lowest_order": 5, "highest_order": 4}, "lowest_order 5 is above highest_order 4"),
        ({"highest_order": 30}, "less than or equal to 29"),
        ({"mapping_order": 15}, "less than or equal to 14"),
        ({"position": {"ra": "x", "dec": "x"}}, "name two columns"),
        ({"column_groups": []}, "is empty"),
        ({"column_groups": [{"name": "a", "columns": []}]}, "a has no columns"),
        ({"column_groups": [{"name": "a"}, {"name": "b"}]}, "only one group"),
        ({"column_groups": [{"name": "a"}, {"name": "a", "columns": ["x"]}]}, "two groups are named a"),
        (
            {
                "column_groups": [
                    {"name": "a", "columns": ["x"]},
                    {"name": "b", "columns": ["x", "ra", "dec"]},
                ]
            },
            "x stands twice",
        ),
        ({"column_groups": [{"name": "a", "columns": ["ra"]}]}, "position column dec"),
        ({"co_partitioned": ["id", "id"]}, "id stands twice"),
        ({"parquet": {"compression": "snappy", "level": 3}}, "snappy has no levels"),
        ({"parquet": {"compression": "zstd", "level": 30}}, "take 1 to 22"),
        ({"schedule": "often"}, "is no schedule"),
        ({"vacuum": {"schedule": "often"}}, "is no schedule"),
        ({"vacuum": {"keep_versions": 0}}, "greater than or equal to 1"),
        ({"vacuum": {"keep_days": -1}}, "greater than or equal to 0"),
        ({"vacuum": {"keep": 3}}, "not permitted"),
        ({"bad_rows": {"policy": "drop"}}, "'fail' or 'quarantine'"),
        ({"source": {"uri": "x", "format": "csv", "options": {"header": False}}}, "column_names must list"),
        (
            {"source": {"uri": "x", "format": "csv", "options": {"delimiter": "ab"}}},
            "not one ASCII character",
        ),
        ({"source": {"uri": "x", "format": "parquet", "options": {"delimiter": ";"}}}, "not permitted"),
    ],
)
def test_mistakes_are_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        spec(**keys)


def test_overrides_hold_for_every_group_and_are_validated() -> None:
    two = spec(
        column_groups=[{"name": "main", "columns": ["ra", "dec"], "threshold": "1 MiB"}, {"name": "rest"}]
    )
    changed = two.with_overrides(threshold="20k rows", layout="hipscat")
    assert [str(changed.threshold_of(group)) for group in ("main", "rest")] == ["20000 rows", "20000 rows"]
    assert changed.layout is Layout.HIPSCAT
    assert two.with_overrides() == two
    with pytest.raises(SpecError, match="stars: threshold: '20k': 'k' is no unit; use rows, B"):
        two.with_overrides(threshold="20k")
    with pytest.raises(SpecError, match=r"stars: layout: .*'hats' or 'hipscat'"):
        two.with_overrides(layout="fits")


def test_json_gives_the_same_spec_back() -> None:
    options = {"delimiter": "\t", "types": {"id": "uint64"}, "column_names": ["id", "ra", "dec"]}
    full = spec(
        source={"uri": "x", "format": "csv", "options": options}, threshold="3 MiB", schedule="@daily"
    )
    assert CatalogSpec.model_validate_json(full.model_dump_json()) == full
    assert isinstance(full.source.options, CsvOptions)


def test_fingerprint_text_is_canonical_and_leaves_schedules_and_retention_out() -> None:
    assert spec(schedule="@daily").fingerprint_text() == spec(schedule=None).fingerprint_text()
    assert spec(vacuum={"keep_versions": 2}).fingerprint_text() == spec().fingerprint_text()
    assert spec(threshold="1000 kB").fingerprint_text() == spec(threshold="1 MB").fingerprint_text()
    assert spec(threshold="2 MB").fingerprint_text() != spec(threshold="1 MB").fingerprint_text()
    keys = list(json.loads(spec().fingerprint_text()))
    assert keys == sorted(keys)


def test_options_can_be_given_as_a_model_of_the_right_format_only() -> None:
    given = CsvOptions(delimiter=";")
    assert SourceSpec(uri="x", format="csv", options=given).options == given
    with pytest.raises(ValidationError, match="options are those of parquet"):
        SourceSpec(uri="x", format="csv", options=ParquetOptions())


def test_every_format_has_options() -> None:
    for name in FORMATS:
        assert SourceSpec.model_validate({"uri": "x", "format": name}).options.format == name


@pytest.mark.parametrize("given", [True, -1, "", " ", 1.5, [1]])
def test_tables_within_files_are_named_by_number_or_name(given: Any) -> None:
    for name, key in (("fits", "hdu"), ("votable", "table")):
        with pytest.raises(ValidationError, match="neither a number from 0 on nor a name"):
            SourceSpec.model_validate({"uri": "x", "format": name, "options": {key: given}})
        for sound in (0, 3, "STARS", "1", None):
            source = SourceSpec.model_validate({"uri": "x", "format": name, "options": {key: sound}})
            assert source.options.model_dump()[key] == sound
            assert SourceSpec.model_validate_json(source.model_dump_json()) == source


def test_spec_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        spec().name = "other"  # type: ignore[misc]


def test_plain_type_names_are_those_of_arrow() -> None:
    from hipslake.predicates.type_names import PLAIN_TYPES

    for name in PLAIN_TYPES:
        assert isinstance(pa.type_for_alias(name), pa.DataType)
