"""Columns from night to night: named like ours, without a type, in other units or other letters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hipslake.errors import ReservedColumnError
from hipslake.specs.catalog_spec import Unchanged
from hipslake.steps.upkeep.hats_view import show_newest

from tests.steps.nights import SPEC, Survey, night_rows


def without_type(table: pa.Table) -> pa.Table:
    """The table with magnitudes that are all null, and of no type."""
    return table.set_column(3, "mag", pa.nulls(len(table)))


@pytest.mark.parametrize("layout", ["hats", "hipscat"])
def test_positions_of_the_source_may_be_named_like_those_that_we_add(tmp_path: Path, layout: str) -> None:
    survey = Survey(tmp_path, layout=layout)
    text = SPEC.format(landing=survey.landing, threshold="300 rows", layout=layout, more="")
    survey.spec_text = text.replace("{ra: ra, dec: dec}", "{ra: ra_icrs, dec: dec_icrs}")
    names = ["id", "ra_icrs", "dec_icrs", "mag", "night"]
    for number, rows in [(0, 400), (1, 400), (2, 0)]:
        survey.land(number, night_rows(number, rows).rename_columns(names))
        survey.append(number)
        assert survey.catalog.schema.names[1:6] == names
    survey.catalog.verify().raise_if_failed()
    assert survey.catalog.metadata.total_rows == 800


def test_a_name_that_differs_only_by_case_is_refused(survey: Survey) -> None:
    survey.night(0)
    survey.land(1, night_rows(1).rename_columns(["id", "ra", "dec", "MAG", "night"]))
    survey.spec_text = survey.spec.read_text().replace(
        "format: parquet", 'format: parquet\n  missing_columns: "null"'
    )
    with pytest.raises(ReservedColumnError, match="'mag' and 'MAG' differ only by case"):
        survey.append(1)
    assert survey.catalog.versions() == [1]


def test_a_column_without_any_value_does_not_decide_its_type(survey: Survey) -> None:
    survey.land(0, without_type(night_rows(0)))
    survey.append(0)
    assert "mag" not in survey.catalog.schema.names
    survey.night(1)
    survey.land(2, without_type(night_rows(2)).append_column("later", pa.nulls(400)))
    survey.append(2)
    survey.catalog.verify().raise_if_failed()
    rows = survey.catalog.read(columns=["night", "mag"])
    assert rows.schema.field("mag").type == pa.float64()
    known = rows.filter(rows["mag"].is_valid())
    assert set(known["night"].to_pylist()) == {1}
    assert known.num_rows == 400
    assert "later" not in survey.catalog.schema.names


def test_a_column_that_goes_and_comes_back(survey: Survey) -> None:
    survey.night(0)
    survey.spec_text = survey.spec.read_text().replace(
        "format: parquet", 'format: parquet\n  missing_columns: "null"'
    )
    survey.land(1, night_rows(1).drop_columns(["mag"]))
    survey.append(1)
    survey.night(2)
    assert survey.catalog.read(columns=["mag"])["mag"].null_count == 400
    survey.night(1)
    survey.assert_holds_what_landed()


@pytest.mark.parametrize("append", ["rewrite", "add_file"])
def test_values_may_become_null_where_there_were_none(tmp_path: Path, append: str) -> None:
    survey = Survey(tmp_path, more=f"append: {append}")
    strict = pa.schema([field.with_nullable(False) for field in night_rows(0).schema])
    survey.land(0, night_rows(0, 60).cast(strict))
    survey.append(0)
    survey.land(1, night_rows(1, 60).set_column(3, "mag", pa.nulls(60, pa.float64())))
    survey.append(1)
    survey.land(2, night_rows(2, 60).cast(strict))
    survey.append(2)
    survey.catalog.verify().raise_if_failed()
    assert survey.catalog.read(columns=["mag"])["mag"].null_count == 60
    assert survey.catalog.read().num_rows == 180


@pytest.mark.parametrize("append", ["rewrite", "add_file"])
def test_the_view_of_leaves_that_lack_a_new_column(tmp_path: Path, append: str) -> None:
    survey = Survey(tmp_path, more=f"append: {append}")
    survey.night(0)
    show_newest(survey.catalog.storage, Unchanged.LINK)
    survey.land(1, night_rows(5, 10).append_column("colour", pa.array(np.ones(10))))
    survey.append(1)
    assert show_newest(survey.catalog.storage, Unchanged.LINK).version == 2
    thumbnail = next(survey.root.glob(f"{survey.catalog.metadata.write_id}/main/data_thumbnail.parquet"))
    assert "colour" in pa.parquet.read_schema(thumbnail).names
