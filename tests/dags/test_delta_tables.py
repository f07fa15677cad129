"""The DAGs of Delta tables: their documents, and whole runs of them, from catalogs and from change data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.api.table import Table
from hipslake.steps.compact_table.request import CompactTableReport
from hipslake.steps.run import run_uri
from hipslake.steps.upkeep.request import VacuumTableReport

from tests.dags.dag_runs import Load
from tests.steps.nights import Survey
from tests.steps.sink.following import FOLLOWS, catalog_rows, corrected
from tests.steps.sinks import COLUMNS
from tests.tables.delta.delta_lake import by_peers
from tests.tables.test_change_data import records

DELTA = "format: delta\ntable: survey.{name}\ndelta: {{location: '{root}/lake'}}\n"
COMPACTION = "name: packed\ntype: compaction\nmode: hilbert\ncolumns: [ra, dec, mag]\nmax_commits: 2\n"
VACUUM = "vacuum: {keep_versions: 2, keep_days: 0, orphan_days: 3, schedule: '0 5 * * SUN'}\n"
RECORDS = """\
source: {{files: {{uri: '{root}/landing-records/*.parquet', format: parquet}}}}
mode: upsert
key: id
operation: {{column: op}}
order_by: v
"""


@pytest.fixture
def tables(specs: Path, tmp_path: Path) -> Path:
    """The folder of table specs: a table that follows a catalog, its compaction, and one of change data."""
    folder = specs.parent / "tables"
    folder.mkdir()
    stars = DELTA.format(name="stars", root=tmp_path)
    (folder / "stars.yaml").write_text(f"name: stars\n{stars}{FOLLOWS}{VACUUM}")
    (folder / "packed.yaml").write_text(f"{COMPACTION}{stars}")
    records = DELTA.format(name="records", root=tmp_path)
    (folder / "records.yaml").write_text(f"name: records\n{records}{RECORDS.format(root=tmp_path)}")
    return folder


def test_their_documents_say_what_they_are(load: Load, tables: Path, tmp_path: Path) -> None:
    dags = load()
    assert f"`survey.stars` of Delta Lake, below `{tmp_path}/lake`" in dags["iceberg_sink__stars"].doc_md
    assert "Compacts the Delta table `survey.stars`" in dags["table_compact__packed"].doc_md
    assert "at most 2 versions" in dags["table_compact__packed"].doc_md
    assert "hipslake://tables/stars" in repr(dags["table_compact__packed"].timetable.asset_condition)
    deleting = dags["table_delete__records"].doc_md
    assert "is written anew." in deleting
    assert "write.delete.mode" not in deleting
    vacuum = dags["table_vacuum__stars"]
    assert "snapshot" not in vacuum.doc_md
    assert vacuum.params.get_param("keep_versions").schema["title"] == "Keep versions"


def test_what_a_delta_table_has_not_is_told(load: Load, told: Callable[[], str], tables: Path) -> None:
    text = (tables / "stars.yaml").read_text()
    (tables / "stars.yaml").write_text(f"{text}cluster_by: [ra, dec]\n")
    assert "iceberg_sink__stars" not in load()
    assert "cluster_by: Delta tables are not kept clustered" in told()


def test_a_spec_may_let_rows_go_by_deletion_vectors(load: Load, tables: Path) -> None:
    text = (tables / "records.yaml").read_text()
    assert "`delta.enableDeletionVectors`" in load()["table_delete__records"].doc_md
    (tables / "records.yaml").write_text(f"{text}write: merge-on-read\n")
    dags = load()
    assert "iceberg_sink__records" in dags
    assert "(`write: merge-on-read`)" in dags["table_delete__records"].doc_md


@pytest.mark.system
@pytest.mark.peers
class TestRuns:
    """Whole runs; other engines read what they leave."""

    @pytest.fixture
    def run(self, load: Load, tables: Path, tmp_path: Path, airflow: Path) -> Callable[..., Any]:
        """Run a DAG; give the states of its tasks, and the run folder."""

        def ran(dag_id: str, **conf: Any) -> tuple[set[str], Path]:
            done = load()[dag_id].test(run_conf=conf)  # a DAG keeps the params of its last test
            states = {str(instance.state) for instance in done.get_task_instances()}
            return states, Path(run_uri(str(tmp_path / "warehouse"), dag_id, done.run_id))

        return ran

    def test_a_table_follows_its_catalog_and_is_compacted_and_vacuumed(
        self, run: Callable[..., Any], tmp_path: Path, peers_python: str
    ) -> None:
        survey, location = Survey(tmp_path), tmp_path / "lake" / "survey" / "stars"

        def check(name: str) -> None:
            expected = catalog_rows(survey)
            read = Table.open(location).read(list(COLUMNS)).sort_by("id").combine_chunks()
            assert read.equals(expected)
            for peer, found in by_peers(peers_python, location, tmp_path / name).items():
                found = found.select(list(COLUMNS)).cast(expected.schema)
                assert found.sort_by("id").combine_chunks().equals(expected), peer

        survey.night(0)
        survey.night(1)
        assert run("iceberg_sink__stars")[0] == {"success"}
        check("first")
        survey.land(0, corrected(survey.landed[0], 1))
        survey.append(0)
        assert run("iceberg_sink__stars")[0] == {"success"}
        check("corrected")
        states, folder = run("table_compact__packed")
        assert states == {"success"}
        done = CompactTableReport.model_validate_json((folder / "reports/compact_table.json").read_text())
        assert (done.rows_in, done.commits) == (done.rows_out, 2)
        check("packed")
        assert run("iceberg_sink__stars")[0] == {"success", "skipped"}
        survey.night(2)
        assert run("iceberg_sink__stars")[0] == {"success"}
        versions = [each.version for each in Table.open(location).versions()]
        states, folder = run("table_vacuum__stars", dry_run=False)
        assert states == {"success"}
        gone = VacuumTableReport.model_validate_json((folder / "reports/vacuum_table.json").read_text())
        assert (list(gone.kept), gone.files > 0) == (versions[-2:], True)
        assert f"Dropped {len(versions) - 2} versions of survey.stars" in gone.text
        check("vacuumed")

    def test_change_data_comes_in_and_rows_are_deleted(
        self, run: Callable[..., Any], tmp_path: Path, peers_python: str
    ) -> None:
        landing, location = tmp_path / "landing-records", tmp_path / "lake" / "survey" / "records"
        landing.mkdir()

        def check(expected: dict[int, str], name: str) -> None:
            for peer, found in by_peers(peers_python, location, tmp_path / name).items():
                assert found.num_rows == len(expected), peer
                pairs = zip(found["id"].to_pylist(), found["data"].to_pylist(), strict=True)
                assert dict(pairs) == expected, peer

        def land(rows: pa.Table) -> None:
            for old in landing.iterdir():
                old.unlink()
            pq.write_table(rows, landing / "records.parquet")

        land(records(*(("I", number, "first", 1) for number in range(10))))
        assert run("iceberg_sink__records", wait_minutes=0)[0] == {"success"}
        land(records(("U", 1, "second", 2), ("D", 2, "", 2), ("U", 3, "late", 0), ("I", 20, "new", 1)))
        assert run("iceberg_sink__records", wait_minutes=0)[0] == {"success"}
        expected = dict.fromkeys(range(10), "first") | {1: "second", 20: "new"}
        del expected[2]
        check(expected, "changed")
        assert run("iceberg_sink__records", wait_minutes=0)[0] == {"success", "skipped"}
        assert run("table_delete__records", filters="id < 5")[0] == {"failed"}
        check(expected, "kept")
        assert run("table_delete__records", filters="id < 5", max_fraction=0.5)[0] == {"success"}
        check({number: data for number, data in expected.items() if number >= 5}, "deleted")
        assert run("table_delete__records", keys=["3"])[0] == {"skipped"}
