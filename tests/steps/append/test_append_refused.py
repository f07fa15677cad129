"""Nights that do not fit to their catalog: a clear error each, and the catalog stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hipslake.errors import HipslakeError, PlanError, SchemaMismatchError, SpecError
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.spec_folder import load_spec
from hipslake.specs.template import is_templated
from hypothesis import given
from hypothesis import strategies as st

from tests.steps.nights import SPEC, Survey, night_rows
from tests.system.whole import contents

GROUPS = """
column_groups:
  - {name: main, columns: "*"}
  - {name: light, columns: [mag]}
"""


@pytest.fixture
def survey(tmp_path: Path) -> Survey:
    survey = Survey(tmp_path)
    survey.night(0)
    return survey


def retyped(column: str, kind: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index(column)
        return table.set_column(at, column, table[column].cast(kind))

    return change


def with_unit(table: pa.Table, column: str, unit: str | None) -> pa.Table:
    metadata = {"unit": unit} if unit else None
    field = table.schema.field(column).with_metadata(metadata)
    return table.set_column(table.schema.get_field_index(column), field, table[column])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (retyped("mag", pa.string()), "column 'mag' is double in catalog stars"),
        (retyped("night", pa.int64()), "column 'night' is int32 in catalog stars"),
        (lambda table: table.drop_columns("mag"), "has a column 'mag'"),
    ],
)
def test_files_that_the_catalog_cannot_hold(
    survey: Survey, change: Callable[[pa.Table], pa.Table], message: str
) -> None:
    survey.land(1, change(night_rows(1)))
    refused(survey, 1, SchemaMismatchError, message)


def test_narrower_numbers_are_stored_as_the_catalog_has_them(survey: Survey) -> None:
    survey.land(1, retyped("night", pa.int16())(night_rows(1)))
    survey.append(1)
    assert survey.catalog.schema.field("night").type == pa.int32()
    survey.catalog.verify().raise_if_failed()


@pytest.mark.parametrize(
    ("column", "standing", "given"),
    [("mag", "mag", "Jy"), ("ra", "deg", "rad"), ("mag", "m/s", "km.s-1"), ("mag", "count", "electron")],
)
def test_a_night_in_another_unit_is_refused(tmp_path: Path, column: str, standing: str, given: str) -> None:
    survey = Survey(tmp_path)
    survey.land(0, with_unit(night_rows(0), column, standing))
    survey.append(0)
    survey.land(1, with_unit(night_rows(1), column, given))
    message = (
        f"column '{column}' has unit '{given}' in the files of this run but '{standing}' in catalog stars"
    )
    refused(survey, 1, SchemaMismatchError, message)


@pytest.mark.parametrize(
    ("standing", "given", "kept"),
    [
        ("km/s", "km s-1", "km/s"),
        ("mag", None, "mag"),
        (None, "mag", "mag"),
        ("sparks", "mag", "sparks"),
        ("mag", "sparks", "mag"),
    ],
)
def test_a_unit_that_is_written_differently_or_not_at_all_is_no_other_unit(
    tmp_path: Path, standing: str | None, given: str | None, kept: str
) -> None:
    survey = Survey(tmp_path)
    for night, unit in zip((0, 12, 24), (standing, given, standing), strict=True):  # leaves of each stay
        survey.land(night, with_unit(night_rows(night), "mag", unit))
        survey.append(night)
    assert survey.catalog.schema.field("mag").metadata == {b"unit": kept.encode()}
    survey.assert_holds_what_landed()


def test_a_column_may_be_missing_where_the_spec_says_so(survey: Survey) -> None:
    survey.land(1, night_rows(1).drop_columns("mag"))
    text = survey.spec.read_text()
    survey.spec_text = text.replace("format: parquet", 'format: parquet\n  missing_columns: "null"')
    survey.append(1)
    assert survey.catalog.read(columns=["mag"])["mag"].null_count == 400
    survey.catalog.verify().raise_if_failed()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("threshold: 300 rows", "threshold: 299 rows", "the threshold of column group 'main' is 299 rows"),
        ("threshold: 300 rows", "threshold: 1 MiB", "the threshold of column group 'main' is 1 MiB"),
        ("layout: hats", "layout: hipscat", "layout is hipscat"),
        ("dec: dec}", "dec: dec, epoch: 2016.0}", "position is"),
        ("mapping_order: 4", f"mapping_order: 4{GROUPS}", "column_groups is"),
        ("mapping_order: 4", "mapping_order: 4\nappend: add_file", "append: add_file is True"),
        ("mapping_order: 4", "mapping_order: 4\nco_partitioned: [id]", "co_partitioned is"),
    ],
)
def test_a_spec_that_was_changed_under_the_files(survey: Survey, old: str, new: str, message: str) -> None:
    survey.land(1, night_rows(1))
    survey.spec_text = survey.spec.read_text().replace(old, new)
    refused(survey, 1, SpecError, message)


def test_a_threshold_may_be_raised(survey: Survey) -> None:
    survey.threshold = "400 rows"
    survey.night(1)
    survey.assert_holds_what_landed()


def test_a_crowded_place_that_may_not_be_split(survey: Survey) -> None:
    one_place = (
        night_rows(1).set_column(1, "ra", pa.array([80.0] * 400)).set_column(2, "dec", pa.array([1.0] * 400))
    )
    survey.land(1, one_place)
    refused(survey, 1, PlanError, "raise the threshold")


def refused(survey: Survey, night: int, kind: type[HipslakeError], message: str) -> None:
    """Check that a night is refused with a message, and that readers see what they saw before."""
    before = {name: data for name, data in contents(survey.root).items() if not name.startswith("2")}
    with pytest.raises(kind, match=message) as caught:
        survey.append(night)
    assert not caught.value.retryable
    after = {name: data for name, data in contents(survey.root).items() if not name.startswith("2")}
    ordinals = {name for name in after if "/ordinals/" in name}
    pins = {name for name in after if "/pins/" in name}
    assert {name: data for name, data in after.items() if name not in ordinals | pins} == {
        name: data for name, data in before.items() if "/ordinals/" not in name
    }


@given(uri=st.text(st.sampled_from("{}n :%Y.ight/start"), max_size=30))
def test_any_text_is_a_uri_or_told_to_be_wrong(uri: str) -> None:
    def told() -> str:
        try:
            return "" if is_templated(uri) == ("{{" in uri) else "wrong"
        except ValueError as error:
            return str(error)

    assert told() == "" or told().startswith("source.uri: ")


@pytest.mark.parametrize(
    ("uri", "mode", "message"),
    [
        ("x/{{ night }}.csv", "replace", "only mode append"),
        ("x/{{ knight }}.csv", "append", "is not known"),
        ("x/{{ night }.csv", "append", "not closed"),
        ("x/*.csv", "append", "needs a source.uri that tells the intervals apart"),
    ],
)
def test_uris_and_modes_that_do_not_fit(tmp_path: Path, uri: str, mode: str, message: str) -> None:
    text = SPEC.format(landing="x", threshold="1 rows", layout="hats", more="")
    text = text.replace("mode: append", f"mode: {mode}").replace("x/night={{ night }}/*.parquet", f"'{uri}'")
    (tmp_path / "stars.yaml").write_text(text)
    with pytest.raises(SpecError, match=message):
        load_spec(tmp_path / "stars.yaml", CatalogSpec)
