"""Commands that fill tables and compact them do what their DAGs do; other readers find it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import duckdb
import hipslake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hipslake.sources import prefetching
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from tests.cli.conftest import POSITION, Command, night
from tests.tables.delta.delta_lake import plain_log

TABLE = "sky.stars"


@pytest.fixture
def specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the deployment's specs of tables."""
    folder = tmp_path / "specs" / "tables"
    folder.mkdir(parents=True)
    monkeypatch.setenv("HIPSLAKE_SPECS", str(tmp_path / "specs"))
    monkeypatch.setenv("HIPSLAKE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("HIPSLAKE_WAREHOUSE", str(tmp_path / "warehouse"))
    return folder


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    """Files of two nights, by their dates."""
    folder = tmp_path / "landing"
    folder.mkdir()
    for number in (5, 6):
        pq.write_table(night(number), folder / f"2026-11-{number:02d}.parquet")
    return folder


def write(folder: Path, name: str = "stars", **given: Any) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"name": name, "table": TABLE} | given))
    return path


def files_of(landing: Path, pattern: str = "*") -> dict[str, Any]:
    return {"files": {"uri": f"{landing}/{pattern}.parquet", "format": "parquet"}}


def opened(tmp_path: Path, name: str = TABLE) -> Table:
    return SqlCatalog(
        "hipslake", uri=f"sqlite:///{tmp_path}/state/iceberg.db", warehouse="/nowhere"
    ).load_table(name)


def scanned(tmp_path: Path, name: str) -> pa.Table:
    return opened(tmp_path, name).scan().to_arrow()


def files_now(tmp_path: Path) -> set[str]:
    return {task.file.file_path for task in opened(tmp_path).scan().plan_files()}


def rows_of(tmp_path: Path) -> Counter[str]:
    """The rows of the table, as DuckDB reads the data files that pyiceberg names."""
    tasks = opened(tmp_path).scan().plan_files()
    assert not any(task.delete_files for task in tasks)
    names = [task.file.file_path.removeprefix("file://") for task in tasks]
    if not names:
        return Counter()
    found = duckdb.execute("select id, ra, dec, mag, name from read_parquet(?)", [names]).fetchall()
    return Counter(map(repr, found))


def expected(*numbers: int) -> Counter[str]:
    rows = pa.concat_tables([night(number) for number in numbers])
    return Counter(map(repr, duckdb.from_arrow(rows).project("id, ra, dec, mag, name").fetchall()))


def test_files_are_sunk_once(command: Command, specs: Path, landing: Path, tmp_path: Path) -> None:
    path = write(specs, source=files_of(landing), sort=["id"])
    told = command("sink", path)
    assert told.code == 0
    assert told.out.splitlines()[0] == f"{TABLE}: 800 rows, 1 file added"
    assert rows_of(tmp_path) == expected(5, 6)
    again = command("sink", "stars", "--exit-code")
    assert again.code == 3
    assert "exactly these files" in again.out
    forced = json.loads(command("sink", "stars", "--force", "--json").out)
    assert (forced["rows"], forced["nothing_to_do"]) == (800, "")
    assert Path(forced["run"], "reports", "sink.json").is_file()
    assert rows_of(tmp_path) == expected(5, 6)


def test_intervals_of_files_are_asked_for(
    command: Command, specs: Path, landing: Path, tmp_path: Path
) -> None:
    write(specs, source=files_of(landing, "{{ night }}"))
    missing = command("sink", "stars")
    assert missing.code == 1
    assert "sinks the files of an interval; give one" in missing.err
    for _ in range(2):
        assert command("sink", "stars", "--interval", "2026-11-05").code == 0
        assert rows_of(tmp_path) == expected(5)
    assert command("sink", "stars", "--interval", "2026-11-06T00:00", "2026-11-07T00:00").code == 0
    assert rows_of(tmp_path) == expected(5, 6)
    assert "leave the interval out" in command(
        "sink", write(specs, "all", source=files_of(landing)), "--interval", "2026-11-05"
    ).err  # fmt: skip


def test_a_table_follows_the_nights_of_a_catalog(command: Command, specs: Path, tmp_path: Path) -> None:
    spec = POSITION | {"name": "survey", "mode": "append", "threshold": "150 rows"}
    write(specs, source={"catalog": "survey", "rows": "increment"}, partition=["bucket[2](id)"])
    for number in (1, 2):
        hipslake.ingest(
            night(number), spec=spec, warehouse=tmp_path / "warehouse", interval=61000 + number, spark=False
        )
    first = json.loads(command("sink", "stars", "--json").out)
    assert (first["rows"], first["commits"]) == (800, 2)
    hipslake.ingest(night(3), spec=spec, warehouse=tmp_path / "warehouse", interval=61003, spark=False)
    assert json.loads(command("sink", "stars", "--json").out)["rows"] == 400
    assert rows_of(tmp_path) == expected(1, 2, 3)
    assert command("sink", "stars", "--exit-code").code == 3


def test_a_branch_is_audited_and_published(
    command: Command, specs: Path, landing: Path, tmp_path: Path
) -> None:
    checked = {"branch": "audit", "audit": {"ranges": {"dec": {"max": 20}}}}
    write(specs, source=files_of(landing), **checked)
    refused = command("sink", "stars")
    assert refused.code == 1
    assert "dec" in refused.err
    assert rows_of(tmp_path) == Counter()
    checked["audit"]["ranges"]["dec"]["max"] = 90  # type: ignore[index]
    write(specs, source=files_of(landing), **checked)
    told = command("sink", "stars")
    assert told.code == 0
    assert "branch audit: published as snapshot" in told.out
    assert rows_of(tmp_path) == expected(5, 6)


def test_a_clustered_table_is_kept_so_and_a_compaction_brings_files_together(
    command: Command, specs: Path, landing: Path, tmp_path: Path
) -> None:
    write(specs, source=files_of(landing, "{{ night }}"), cluster_by=["ra", "dec"])
    for day in (5, 6):
        told = json.loads(command("sink", "stars", "--interval", f"2026-11-{day:02d}", "--json").out)
        assert Path(told["run"], "reports", "compact_table.json").is_file()
    (specs / "together.yaml").write_text(f"name: together\ntype: compaction\ntable: {TABLE}\nmode: binpack\n")
    files = files_now(tmp_path)
    dry = json.loads(command("compact", "together", "--full", "--dry-run", "--json").out)
    assert (dry["dry_run"], dry["version"], files_now(tmp_path)) == (True, "", files)
    done = json.loads(command("compact", "together", "--full", "--json").out)
    assert done["removed"]["files"] == len(files)
    assert files_now(tmp_path).isdisjoint(files)
    assert rows_of(tmp_path) == expected(5, 6)
    assert command("compact", "together", "--exit-code").code == 3


def test_a_folder_is_clustered_and_its_source_stays(
    command: Command, specs: Path, landing: Path, tmp_path: Path
) -> None:
    output = tmp_path / "clustered"
    text = f"name: curve\ntype: compaction\nfolder: {{uri: '{landing}', output: '{output}'}}\nmode: hilbert\n"
    (specs / "curve.yaml").write_text(text + "columns: [ra, dec]\n")
    assert command("compact", "curve").code == 0
    found = duckdb.sql(f"select id, ra, dec, mag, name from read_parquet('{output}/**/*.parquet')").fetchall()
    assert Counter(map(repr, found)) == expected(5, 6)
    assert len(list(landing.iterdir())) == 2


def test_delta_tables_are_sunk_into_too(command: Command, specs: Path, landing: Path) -> None:
    write(specs, source=files_of(landing), format="delta")
    told = json.loads(command("sink", "stars", "--json").out)
    files = [str(Path(told["uri"], path)) for path in plain_log(Path(told["uri"]))]
    found = duckdb.execute("select id, ra, dec, mag, name from read_parquet(?)", [files]).fetchall()
    assert Counter(map(repr, found)) == expected(5, 6)
    assert told["rows"] == 800


def test_a_stream_is_left_to_its_dag(command: Command, specs: Path, landing: Path) -> None:
    write(specs, source=files_of(landing), stream={"trigger": "available_now", "source": "files"})
    answer = command("sink", "stars")
    assert answer.code == 1
    assert "iceberg_sink__stars drains that" in answer.err


@pytest.mark.parametrize("kept", ["sort", "cluster_by"])
@pytest.mark.parametrize("nanoseconds", [0, 123])  # only pandas makes a value of Python of the second
def test_as_a_process_of_its_own_a_sink_does_without_pandas_and_requests(
    command: Command, specs: Path, tmp_path: Path, kept: str, nanoseconds: int
) -> None:
    times = [1_700_000_000_000_000_000 + nanoseconds, None, 1_600_000_000_000_000_000]
    moments = pa.array(times, pa.timestamp("ns"))
    rows = pa.table({"id": [1, 2, 3], "seen": moments, "name": ["a", "b", None]})
    landing = tmp_path / "landing"
    landing.mkdir()
    pq.write_table(rows, landing / "a.parquet")
    given = {"source": files_of(landing), "partition": ["year(seen)"], kept: ["seen", "id"]}
    write(specs, "alone", table="sky.alone", **given)
    write(specs, "beside", table="sky.beside", **given)
    program = (
        "import sys; sys.argv = ['hipslake', 'sink', 'alone']\n"
        "from hipslake.cli.main import main\n"
        "assert 'pandas' not in sys.modules\n"
        "code = main()\n"
        "assert 'hipslake.catalog.catalog_reader' not in sys.modules\n"
        "print(not sys.modules.keys().isdisjoint({'pandas', 'requests'}))\n"
        "sys.exit(code)"
    )
    ran = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    there = command("sink", "beside")
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (there.code, "False"), ran.stderr
    assert ran.stderr.replace("alone", "beside") == there.err
    if nanoseconds:
        assert (there.code, there.out) == (1, "")
        return
    alone, beside = (scanned(tmp_path, name).sort_by("id") for name in ("sky.alone", "sky.beside"))
    assert alone.num_rows == 3
    assert alone.equals(beside)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"partition": ["healpix[1]", "truncate[4](name)"]},
        {"partition": ["healpix[0]"], "sort": ["id"], "columns": ["id", "name"]},
    ],
    ids=["as they are", "partitioned", "some columns"],
)
def test_rows_that_are_read_before_the_sink_asks_are_those_of_the_files_as_it_lists_them(
    command: Command, specs: Path, landing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Any
) -> None:
    for path in landing.iterdir():
        rows = pq.read_table(path)
        pq.write_table(rows.append_column("_healpix_29", pa.array(range(rows.num_rows), pa.int64())), path)
    source = files_of(landing) | ({"columns": given.pop("columns")} if "columns" in given else {})
    served: list[bool] = []

    def begin(prefetch: Any) -> None:
        begun(prefetch)
        prefetch._thread.join()
        if changed:
            rows = pq.read_table(landing / "2026-11-05.parquet").slice(100)
            pq.write_table(rows, landing / "2026-11-05.parquet")

    def taken(*asked: Any) -> Any:
        found = prefetching.prefetched(*asked)
        served.append(found is not None)
        return found

    begun, changed = prefetching._Prefetch.begin, False
    monkeypatch.setattr(prefetching._Prefetch, "begin", begin)
    monkeypatch.setattr("hipslake.steps.sink.source_rows.prefetched", taken)
    write(specs, "early", table="sky.early", source=source, **given)
    write(specs, "late", table="sky.late", source=source, **given)
    write(specs, "changed", table="sky.changed", source=source, **given)
    assert command("sink", "early").code == 0
    assert sum(served) == 2  # they may be counted before, by few columns
    with monkeypatch.context() as without:
        without.setattr("hipslake.api.table_runs.prefetching_rows", lambda *_: nullcontext())
        served.clear()
        assert command("sink", "late").code == 0
        assert not any(served)
    early, late = (scanned(tmp_path, f"sky.{name}").sort_by("id") for name in ("early", "late"))
    assert early.num_rows == 800
    assert repr(early.to_pylist()) == repr(late.to_pylist())  # with NaN
    changed = True  # after it was read, before it is listed
    assert command("sink", "changed").code == 0
    assert sum(served) == 1
    found = scanned(tmp_path, "sky.changed").sort_by("id")
    assert found.num_rows == 700
    assert set(found["id"].to_pylist()) < set(late["id"].to_pylist())
