"""Tables that follow a catalog, and that others change meanwhile."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hipslake.errors import InputError, PlanError
from hipslake.specs.table_spec import TableSpec
from pyiceberg.expressions import EqualTo

from tests.steps.nights import Survey
from tests.steps.sink.following import FOLLOWS, assert_follows, catalog_rows, corrected
from tests.steps.sinks import COLUMNS, Lake


class TestOthers:
    @pytest.fixture
    def fed(self, lake: Lake, survey: Survey) -> Lake:
        lake.write_spec(FOLLOWS)
        survey.night(0, rows=100)
        lake.run()
        return lake

    def test_rows_that_others_delete_stay_deleted_until_they_change(self, fed: Lake, survey: Survey) -> None:
        fed.table.delete(EqualTo("id", 7))
        rows = survey.landed[0]
        survey.land(0, rows.set_column(3, "mag", pa.array([1.0, *rows["mag"].to_pylist()[1:]])))
        survey.append(0)
        assert fed.run().commits == 1
        expected = catalog_rows(survey)
        assert (
            fed.rows(*COLUMNS)
            .combine_chunks()
            .equals(expected.filter(pc.not_equal(expected["id"], 7)).combine_chunks())
        )
        survey.land(0, corrected(survey.landed[0], 3).slice(10))
        survey.append(0)
        fed.run()
        found = fed.rows("id")["id"].to_pylist()
        assert set(found) - {7} == set(catalog_rows(survey)["id"].to_pylist()) - {7}
        assert len(found) == len(set(found))

    def test_rows_of_others_stay_and_one_with_the_key_of_a_new_one_is_told(
        self, fed: Lake, survey: Survey
    ) -> None:
        table = fed.table
        strange = table.scan().to_arrow().slice(0, 1)
        strange = strange.set_column(strange.schema.get_field_index("id"), "id", pa.array([1_000_003]))
        table.append(strange.cast(table.schema().as_arrow()))
        survey.night(2, rows=30)
        fed.run()
        assert fed.rows("id")["id"].to_pylist().count(1_000_003) == 1
        survey.night(1, rows=30)
        with pytest.raises(InputError, match=r"1 rows of table survey\.stars have the key .* id = 1000003"):
            fed.run()
        fed.run(force=True)
        assert_follows(fed, survey)

    @pytest.mark.parametrize("how", ["drop", "rename"])
    def test_a_column_that_others_take_away_is_told(self, fed: Lake, survey: Survey, how: str) -> None:
        """Made anew, it would be null in all rows that have not changed."""
        with fed.table.update_schema() as update:
            if how == "drop":
                update.delete_column("mag")
            else:
                update.rename_column("mag", "magnitude")
        survey.night(1, rows=50)
        for _ in range(2):
            with pytest.raises(PlanError, match=r"it has no column 'mag'.*set force"):
                fed.run()
        assert "mag" not in fed.table.schema().column_names
        fed.run(force=True)
        assert_follows(fed, survey)

    def test_force_refuses_a_table_of_other_specs(self, fed: Lake, survey: Survey) -> None:
        text = fed.spec.read_text()
        other = fed.spec.with_name("other.yaml")
        other.write_text(text.replace("name: stars", "name: other").replace("changes: true", "rows: all"))
        fed.resolve()
        fed.sink(fed.resolve(spec_file=str(other), dag_id="iceberg_sink__other"))
        with pytest.raises(PlanError, match="other sinks into it too"):
            fed.run(force=True)

    def test_a_table_that_is_dropped_is_made_anew(self, fed: Lake, survey: Survey) -> None:
        from hipslake.specs.spec_folder import load_spec
        from hipslake.tables.iceberg.catalogs import open_catalog

        open_catalog(load_spec(fed.spec, TableSpec).iceberg, fed.warehouse).drop_table("survey.stars")
        survey.night(1, rows=50)
        assert fed.run().created
        assert_follows(fed, survey)
