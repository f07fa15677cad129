"""The HiPS that a spec asks for: what it may say, and that it changes no version."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hipslake.catalog.schema import check_columns
from hipslake.errors import FilterError, SchemaMismatchError, SpecError
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.hips_spec import HipsOptions, HipsSpec
from hipslake.specs.join_specs import CrossmatchSpec
from hipslake.steps.hips.request import HipsRequest
from pydantic import ValidationError

PLAIN: dict[str, Any] = {
    "name": "stars",
    "source": {"uri": "/x/*.parquet", "format": "parquet"},
    "position": {"ra": "ra", "dec": "dec"},
}
SOURCE = pa.schema([("id", pa.int64()), ("ra", pa.float64()), ("dec", pa.float64()), ("mag", pa.float32())])


def test_it_has_every_option_of_the_step_with_its_default() -> None:
    request = HipsRequest(run_uri="/r", warehouse="/w", catalog="stars")
    options = HipsOptions()
    assert request.model_dump(include=set(HipsOptions.model_fields)) == options.model_dump()
    own = {"run_uri", "warehouse", "catalog", "version", "task_bytes", "created"}
    assert set(HipsRequest.model_fields) - own == set(HipsOptions.model_fields)


def test_a_catalog_is_the_same_with_and_without() -> None:
    spec = CatalogSpec.model_validate(PLAIN)
    assert spec.hips is None
    asked = CatalogSpec.model_validate(PLAIN | {"hips": {"order_by": "mag"}})
    assert asked.hips == HipsSpec(order_by="mag")
    assert asked.fingerprint_text() == spec.fingerprint_text()


@pytest.mark.parametrize(
    ("hips", "message"),
    [
        ({"tile_rows": 0}, "tile_rows"),
        ({"deepest_order": 2}, "deepest_order"),
        ({"columns": ["id", "id"]}, "columns: id stands twice"),
        ({"region": "cone 1 2"}, "region: "),
        ({"service_url": "ftp://x"}, "service_url"),
        ({"schedule": "sometimes"}, "schedule"),
        ({"order": "mag"}, "order"),
    ],
)
def test_mistakes_are_told(hips: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        CatalogSpec.model_validate(PLAIN | {"hips": hips})


@pytest.mark.parametrize(
    ("hips", "error", "message"),
    [
        ({"order_by": "magg"}, SchemaMismatchError, "hips: .*'magg' .did you mean 'mag'"),
        ({"columns": ["id", "name"]}, SchemaMismatchError, "hips: .*'name'"),
        ({"filters": "mag <"}, FilterError, "'stars', hips: "),
        ({"filters": "magg < 3"}, FilterError, "'stars', hips: .*magg"),
    ],
)
def test_columns_that_the_source_lacks_are_told_with_the_other_columns(
    hips: dict[str, Any], error: type[SpecError], message: str
) -> None:
    spec = CatalogSpec.model_validate(PLAIN | {"hips": hips})
    with pytest.raises(error, match=message):
        check_columns(spec, SOURCE)


def test_columns_that_the_catalog_adds_may_be_shown() -> None:
    position = {"ra": "ra", "dec": "dec", "unit": "rad"}
    hips = {"columns": ["ra_icrs"], "order_by": "mag", "filters": "mag < 20 and dec_icrs > 0"}
    check_columns(CatalogSpec.model_validate(PLAIN | {"position": position, "hips": hips}), SOURCE)


def test_a_join_may_ask_for_one_too() -> None:
    sides = {"left": {"catalog": "stars"}, "right": {"catalog": "others"}}
    plain = {"name": "pairs", "type": "crossmatch", "radius_arcsec": 1, **sides}
    spec = CrossmatchSpec.model_validate(plain | {"hips": {"order_by": "separation_arcsec"}})
    assert spec.hips == HipsSpec(order_by="separation_arcsec")
    assert spec.fingerprint_text() == CrossmatchSpec.model_validate(plain).fingerprint_text()
