"""The DAGs that feed Iceberg tables: their forms, and whole runs of them, from catalogs and from files."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.specs.spec_folder import load_spec
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.compact_table.request import CompactTableReport
from hipslake.steps.run import RunFolder, run_uri
from hipslake.steps.sink.request import SinkReport
from hipslake.tables.iceberg.catalogs import open_catalog, open_table
from hipslake.tables.iceberg.data_files import live_files
from pyiceberg.table import Table

from tests.dags.dag_runs import Load, check_form, states
from tests.peers.running import run_peer
from tests.steps.nights import FIRST, Survey, night_rows

NIGHTS = 'source: {catalog: stars, rows: increment}\npartition: ["healpix[1]"]\nsort: [mag]\n'
PEERS = Path(__file__).parents[1] / "tables" / "read_by_peers.py"


@pytest.fixture
def tables(specs: Path) -> Path:
    """The folder of table specs."""
    folder = specs.parent / "tables"
    folder.mkdir()
    return folder


def write_spec(tables: Path, text: str, name: str = "sample") -> None:
    (tables / f"{name}.yaml").write_text(f"name: {name}\ntable: survey.{name}\n{text}")


def spec_of(tables: Path, name: str = "sample") -> TableSpec:
    return load_spec(tables / f"{name}.yaml", TableSpec)


def table_of(tables: Path, name: str = "sample") -> Table:
    spec = spec_of(tables, name)
    return open_table(open_catalog(spec.iceberg, str(tables.parents[1] / "warehouse")), spec.table)


def report_of(tables: Path, run: Any) -> SinkReport:
    folder = run_uri(str(tables.parents[1] / "warehouse"), run.dag_id, run.run_id)
    return SinkReport.model_validate_json(Path(folder, "reports", "sink.json").read_text())


class TestParsing:
    """The DAGs themselves."""

    def test_a_table_of_a_catalog_follows_its_asset(self, load: Load, tables: Path) -> None:
        write_spec(tables, NIGHTS)
        dag = load()["iceberg_sink__sample"]
        assert [task.task_id for task in dag.topological_sort()] == ["resolve", "sink", "confirm"]
        assert "hipslake://catalogs/stars" in repr(dag.timetable.asset_condition)
        assert [outlet.uri for outlet in dag.get_task("sink").outlets] == ["hipslake://tables/sample"]
        assert set(dag.params) == {"force", "window_start", "window_end"}
        assert dag.max_active_runs == 1
        assert "| partitioned by | `healpix[1]` |" in dag.doc_md
        assert "distinct values" not in dag.doc_md
        check_form(dag.params)

    def test_what_is_counted_is_told(self, load: Load, tables: Path) -> None:
        source = "source: {catalog: stars, rows: increment}\n"
        write_spec(tables, source + "statistics: {ndv: [id, band]}\n")
        write_spec(tables, source + "statistics: {ndv: id, recompute: false}\n", "appended")
        dags = load()
        row = "| distinct values | of `id`, `band` are counted |"
        assert row in str(dags["iceberg_sink__sample"].doc_md)
        row = "| distinct values | of `id` are counted, where earlier statistics tell of the rows that stay |"
        assert row in str(dags["iceberg_sink__appended"].doc_md)
        assert set(dags["iceberg_sink__sample"].params) == {"force", "window_start", "window_end"}

    def test_files_are_kept_clustered_behind_what_publishes_rows(self, load: Load, tables: Path) -> None:
        clustered = "source: {catalog: stars, rows: increment}\ncluster_by: [ra, dec]\n"
        write_spec(tables, clustered, "kept")
        write_spec(tables, clustered + "branch: nights\naudit: {rows: {min: 1}}\n", "audited")
        files = "source: {files: {uri: '/sky/*.parquet', format: parquet}}\n"
        stream = "stream: {trigger: available_now, source: files, compact: true}\n"
        write_spec(tables, f"{files}cluster_by: [ra]\n{stream}", "drained")
        dags = load()
        behind = {"kept": "sink", "audited": "audit", "drained": "drain"}
        for name, task in behind.items():
            kept = dags[f"iceberg_sink__{name}"].get_task("keep_clustered")
            assert kept.upstream_task_ids == {task}
        assert "compact_table" not in dags["iceberg_sink__drained"].task_ids

    def test_a_schedule_of_its_own_gives_intervals(self, load: Load, tables: Path) -> None:
        write_spec(tables, NIGHTS + 'schedule: "@daily"\n')
        assert type(load()["iceberg_sink__sample"].timetable).__name__ == "NightTimetable"

    def test_a_table_of_files_waits_for_them(self, load: Load, tables: Path) -> None:
        write_spec(
            tables,
            "source: {files: {uri: '/sky/{{ night }}/*.parquet', format: parquet}}\n"
            "mode: overwrite-interval\ninterval: ts\n",
        )
        dag = load()["iceberg_sink__sample"]
        assert [task.task_id for task in dag.topological_sort()] == ["resolve", "wait", "inputs", "sink"]
        assert set(dag.params) == {"force", "wait_minutes", "allow_empty", "window_start", "window_end"}
        assert type(dag.timetable).__name__ == "NullTimetable"

    def test_a_broken_spec_is_told_and_takes_no_other_down(
        self, load: Load, told: Callable[[], str], tables: Path
    ) -> None:
        write_spec(tables, NIGHTS)
        write_spec(tables, NIGHTS.replace("partition", "partitions"), "broken")
        write_spec(tables, "type: compaction\n", "compacted")
        dags = load()
        assert [dag_id for dag_id in dags if dag_id.startswith("iceberg_sink")] == ["iceberg_sink__sample"]
        assert "did you mean 'partition'?" in told()

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("force", "yes"),
            ("window_start", "tonight"),
            ("window_end", 3),
            ("wait_minutes", -1),
            ("allow_empty", None),
        ],
    )
    def test_params_out_of_bounds_are_refused(
        self, load: Load, tables: Path, name: str, value: object
    ) -> None:
        from airflow.sdk.exceptions import ParamValidationError

        write_spec(
            tables,
            "source: {files: {uri: '/sky/{{ night }}/*.parquet', format: parquet}}\n"
            "mode: overwrite-interval\ninterval: ts\n",
        )
        with pytest.raises(ParamValidationError):
            load()["iceberg_sink__sample"].params.get_param(name).resolve(value)

    @pytest.mark.parametrize(
        ("params", "says"),
        [
            ({"window_start": "2026-13-45"}, "window_start '2026-13-45' is not a time"),
            ({"window_start": "2026-02-30", "window_end": "2026-03-01"}, "'2026-02-30' is not a time"),
            ({"window_start": "2026-01-01\n"}, "is not a time; write it as"),
            ({"window_start": "2026-01-01T00:00:00+99:99"}, "is not a time"),
            ({"window_start": "2026-01-02", "window_end": "2026-01-01"}, "is not after window_start"),
            ({"window_end": "2026-01-02"}, "window_end '2026-01-02' has no window_start"),
            ({"window_start": "2026-01-01", "wait_minutes": float("nan")}, "wait_minutes: nan is no number"),
            ({}, "the files are those of an interval, and this run has none"),
        ],
    )
    def test_what_bounds_do_not_keep_out_is_told_at_once(
        self, load: Load, tables: Path, params: dict[str, Any], says: str
    ) -> None:
        from airflow.sdk.exceptions import AirflowFailException

        write_spec(tables, "source: {files: {uri: '/sky/{{ night }}/*.parquet', format: parquet}}\n")
        dag = load()["iceberg_sink__sample"]
        for name, value in params.items():
            dag.params.get_param(name).resolve(value)  # so far it comes
        with pytest.raises(AirflowFailException, match=says):
            failed(dag, params)


ROWS = 4000
CASES = [
    # What the RFC partitions its examples by, its mode, and the files that come of one commit of small size.
    (1, ["year(ts)"], "append"),
    (2, ["bucket[16](id)", "year(ts)"], "append"),
    (3, ["year(ts)"], "upsert"),
    (4, ["bucket[16](data)", "year(ts)"], "upsert"),
]


def sample(seed: int = 3) -> pa.Table:
    """Rows of the RFC's table: id bigint, data string, category string, ts timestamp; three years."""
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 3 * 365, ROWS)
    ts = [datetime(1969, 1, 1) + timedelta(days=int(day)) for day in days]
    data = [f"ǹame {value}" if value % 50 else None for value in rng.integers(0, 500, ROWS).tolist()]
    return pa.table(
        {
            "id": pa.array(rng.permutation(ROWS) - 100, pa.int64()),
            "data": data,
            "category": [("star", "galaxy")[value] for value in rng.integers(0, 2, ROWS).tolist()],
            "ts": pa.array(ts, pa.timestamp("us")),
        }
    )


@pytest.mark.system
@pytest.mark.peers
def test_the_tables_of_the_rfc_have_exactly_the_files_that_the_plan_promised(
    airflow: Path, load: Load, tables: Path, tmp_path: Path, peers_python: str
) -> None:
    rows = sample()
    (tmp_path / "landing").mkdir()
    for part in range(4):
        pq.write_table(rows.slice(part * 1000, 1000), tmp_path / "landing" / f"{part}.parquet")
    for case, partition, mode in CASES:
        key = "mode: upsert\nkey: id\n" if mode == "upsert" else ""
        source = f"source: {{files: {{uri: '{tmp_path}/landing/*.parquet', format: parquet}}}}\n"
        write_spec(tables, f"{source}partition: {json.dumps(partition)}\n{key}", f"case{case}")
    dags, asked = load(), []
    for case, *_ in CASES:
        run = dags[f"iceberg_sink__case{case}"].test(run_conf={"wait_minutes": 0})
        assert states(run) == dict.fromkeys(("resolve", "wait", "inputs", "sink"), "success")
        table, report = table_of(tables, f"case{case}"), report_of(tables, run)
        files = live_files(table)
        [interval] = report.intervals
        assert (interval.case, interval.expected_files) == (case, len(files))
        assert f"Expected files: {len(files)}," in report.text
        if case in (2, 4):  # one per partition value
            assert len(files) == table.inspect.partitions().num_rows
        assert table.scan().to_arrow().sort_by("id").equals(rows.sort_by("id"))
        (tmp_path / f"case{case}").mkdir()
        asked += [table.metadata_location, str(tmp_path / f"case{case}")]
    run_peer(peers_python, PEERS, *asked)
    for case, *_ in CASES:
        for peer in ("polars", "duckdb"):
            found = pq.read_table(tmp_path / f"case{case}" / f"{peer}.parquet").sort_by("id")
            assert found.cast(rows.schema).equals(rows.sort_by("id")), (case, peer)

    again = dags["iceberg_sink__case2"].test(run_conf={"wait_minutes": 0})
    assert states(again)["sink"] == "skipped"
    assert len(table_of(tables, "case2").snapshots()) == 1


@pytest.mark.system
class TestRuns:
    """Whole runs, fed by a catalog of nights."""

    @pytest.fixture
    def survey(self, tmp_path: Path) -> Survey:
        return Survey(tmp_path)

    def test_nights_are_sunk_with_an_asset_event_and_found_again(
        self, airflow: Path, load: Load, tables: Path, survey: Survey
    ) -> None:
        write_spec(tables, NIGHTS)
        survey.night(0)
        survey.night(1)
        run = load()["iceberg_sink__sample"].test()
        assert states(run) == dict.fromkeys(("resolve", "sink", "confirm"), "success")
        report = report_of(tables, run)
        assert (report.rows_out, report.commits) == (800, 2)
        assert table_of(tables).scan().to_arrow().num_rows == 800
        assert last_event("hipslake://tables/sample") == {
            "rows": 800,
            "snapshot_id": report.snapshot_id,
            "table": "survey.sample",
            "uri": table_of(tables).location(),
        }
        again = load()["iceberg_sink__sample"].test()
        assert states(again) == {"resolve": "success", "sink": "skipped", "confirm": "skipped"}
        forced = load()["iceberg_sink__sample"].test(
            run_conf={"force": True, "window_start": f"{FIRST:%Y-%m-%d}"}
        )
        assert report_of(tables, forced).rows_updated == 400
        assert table_of(tables).scan().to_arrow().num_rows == 800

    def test_a_clustered_table_is_kept_so_behind_each_sink(
        self, airflow: Path, load: Load, tables: Path, survey: Survey
    ) -> None:
        source, *_ = NIGHTS.splitlines(keepends=True)
        write_spec(tables, f"{source}cluster_by: [_healpix_29, id]\n", "kept")
        for number in range(6):
            survey.night(number)
            run = load()["iceberg_sink__kept"].test()
            assert states(run) == dict.fromkeys(("resolve", "sink", "confirm", "keep_clustered"), "success")
        folder = RunFolder(run_uri(str(tables.parents[1] / "warehouse"), run.dag_id, run.run_id))
        report = folder.read(RunFolder.report_path("compact_table"), CompactTableReport)
        assert report.clustering is not None
        assert report.clustering.columns == ("_healpix_29", "id")
        assert 0 < report.clustering.total_rewritten_bytes <= 5 * report.clustering.total_came_bytes
        table = table_of(tables, "kept")
        assert table.scan().to_arrow().num_rows == 2400
        assert len(live_files(table)) < 6
        again = load()["iceberg_sink__kept"].test()
        assert states(again)["keep_clustered"] == "skipped"

    def test_a_refused_night_fails_the_run_and_consumers_hear_of_the_others(
        self, airflow: Path, load: Load, tables: Path, survey: Survey
    ) -> None:
        from airflow.sdk.exceptions import AirflowFailException

        write_spec(tables, NIGHTS + "mode: upsert\nkey: id\n", "uneven")
        survey.night(0)
        survey.land(1, night_rows(1).set_column(0, "id", pa.array([7] * 400)))
        survey.append(1)
        dag = load()["iceberg_sink__uneven"]
        run = dag.test()
        assert states(run) == {"resolve": "success", "sink": "success", "confirm": "failed"}
        assert str(run.state) == "failed"
        assert last_event("hipslake://tables/uneven") == {
            "rows": 400,
            "snapshot_id": report_of(tables, run).snapshot_id,
            "table": "survey.uneven",
            "uri": table_of(tables, "uneven").location(),
        }
        confirm = dag.get_task("confirm")
        confirm.run_uri = run_uri(str(tables.parents[1] / "warehouse"), run.dag_id, run.run_id)
        with pytest.raises(AirflowFailException, match="1 are in the table, and these are not: uneven/2026"):
            confirm.execute({})

    @pytest.mark.slow
    def test_spark_sinks_what_this_process_would(
        self, airflow: Path, load: Load, tables: Path, survey: Survey, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2,4]"}')
        for name in ("here", "there"):
            write_spec(tables, NIGHTS, name)
        survey.night(0)
        dags = load()
        assert states(dags["iceberg_sink__here"].test())["sink"] == "success"
        dags["iceberg_sink__there"].get_task("sink").spark_above_bytes = 1
        run = dags["iceberg_sink__there"].test()
        assert states(run)["sink"] == "success"
        assert "session" in report_of(tables, run).seconds
        folder = RunFolder(run_uri(str(tables.parents[1] / "warehouse"), run.dag_id, run.run_id))
        assert folder.application("sink").startswith("local-")  # as Spark itself names what runs here
        here, there = (table_of(tables, name).scan().to_arrow().sort_by("id") for name in ("here", "there"))
        assert here.num_rows == 400
        assert there.equals(here)

    def test_what_makes_no_sense_fails_at_once(
        self, airflow: Path, load: Load, tables: Path, survey: Survey
    ) -> None:
        from airflow.sdk.exceptions import AirflowFailException

        night = night_rows(0)
        ids = pa.array([None if at == 7 else 1 if at < 3 else at for at in range(400)], pa.int64())
        survey.land(0, night.append_column("oid", ids))
        survey.append(0)
        survey.landed.clear()
        for text, says in [
            ("source: {catalog: nobody}\n", "CatalogNotFoundError"),
            ("source: {catalog: stars}\npartition: [nigth]\n", "SchemaMismatchError: .*no column 'nigth'"),
            ("source: {catalog: stars}\nmode: upsert\nkey: oid\n", "InputError: key: column 'oid' is null"),
            (
                'source: {catalog: stars, filters: "oid is not null"}\nmode: upsert\nkey: oid\n',
                "InputError: .*oid",
            ),
        ]:
            write_spec(tables, text)
            with pytest.raises(AirflowFailException, match=says):
                failed(load()["iceberg_sink__sample"])


def failed(dag: Any, params: dict[str, Any] | None = None) -> None:
    """Run the tasks of a DAG one after the other, as Airflow calls them; the first error comes out."""
    from types import SimpleNamespace

    pushed: dict[str, Any] = {}
    ti = SimpleNamespace(xcom_push=lambda key, value: pushed.__setitem__(key, value))
    run = SimpleNamespace(
        dag_id=dag.dag_id,
        run_id="by hand",
        run_type="manual",
        logical_date=None,
        data_interval_start=None,
        data_interval_end=None,
    )
    context = {"params": params or {}, "dag_run": run, "ti": ti}
    dag.get_task("resolve").execute(context)
    sink = dag.get_task("sink")
    sink.run_uri = pushed["run_uri"]
    sink.execute(context)


def last_event(uri: str) -> dict[str, Any]:
    """What the newest event of an asset says."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        found = select(AssetEvent.extra).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        extra = session.scalars(found.where(AssetModel.uri == uri).order_by(AssetEvent.id.desc())).first()
    assert extra is not None
    return {key: value for key, value in extra.items() if key in ("rows", "snapshot_id", "table", "uri")}
