"""A whole ingest on S3: landing, run folder and warehouse; credentials from an Airflow connection alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import s3fs
from hipslake import Catalog
from hipslake.storage.folder import Storage

from tests.peers.running import run_peer
from tests.stores.s3_server import S3Server, running_s3
from tests.system.agreeing import difference, source
from tests.system.environment import environment
from tests.system.stores import on_s3, watched_commands
from tests.system.trees import started

pytestmark = pytest.mark.slow

CATALOG = "gaia_dr3"
PEER = """\
import sys, lsdb, upath
catalog = lsdb.open_catalog(upath.UPath(sys.argv[1], anon=False))  # without it, hats asks as nobody
print(len(catalog), len(catalog.get_healpix_pixels()), int(catalog.compute()["source_id"].nunique()))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """A server that checks keys and signatures."""
    with running_s3(guarded=True) as server:
        yield server


@dataclass(frozen=True)
class Ingest:
    """A DAG run on S3: where it wrote, what it logged, and the command lines that were seen meanwhile."""

    bucket: str
    log: str
    commands: frozenset[str]

    @property
    def root(self) -> str:
        return f"s3://{self.bucket}/warehouse/catalogs/{CATALOG}"


def dag_command() -> list[str]:
    return [sys.executable, "-m", "tests.system.run_dag", f"catalog_ingest__{CATALOG}"]


def upload(server: S3Server, bucket: str, folder: Path) -> None:
    for path in sorted((folder / CATALOG).glob("*.parquet")):
        server.client().upload_file(str(path), bucket, f"landing/{CATALOG}/{path.name}")


@pytest.fixture(scope="module")
def ingest(
    server: S3Server, landing: Path, airflow: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ingest]:
    """The catalog ingested, and the server in reach of this process."""
    bucket = server.make_bucket()
    upload(server, bucket, landing)
    log = tmp_path_factory.mktemp("on-s3") / "log"
    with watched_commands() as seen, started(dag_command(), log, env=on_s3(server, bucket)) as run:
        run.wait(seconds=300)
    with server.reached():
        yield Ingest(bucket, log.read_text(), frozenset(seen))


def test_the_catalog_holds_the_rows_that_landed(ingest: Ingest, landing: Path) -> None:
    catalog = Catalog.open(ingest.root)
    catalog.verify().raise_if_failed()
    assert difference(catalog.read(), source(landing, CATALOG), "source_id") == ""
    assert catalog.versions() == [1]


def test_plain_pyarrow_reads_its_files(ingest: Ingest, landing: Path) -> None:
    metadata = Catalog.open(ingest.root).metadata
    root = f"{ingest.root.removeprefix('s3://')}/{metadata.write_id}/main/dataset"
    files = s3fs.S3FileSystem().glob(f"{root}/Norder=*/Dir=*/Npix=*.parquet")
    rows = pa.concat_tables(pq.ParquetFile(f"s3://{path}").read() for path in files)
    assert difference(rows, source(landing, CATALOG), "source_id") == ""


def test_it_is_the_catalog_that_a_local_warehouse_gets(ingest: Ingest, plain_gaia: Path) -> None:
    local, remote = Catalog.open(plain_gaia), Catalog.open(ingest.root)
    assert remote.pixels == local.pixels
    sums = [
        catalog.metadata.partitions(None, catalog.storage).select(["order", "npix", "sha256"])
        for catalog in (remote, local)
    ]
    assert sums[0].equals(sums[1])


def test_lsdb_reads_it(ingest: Ingest, server: S3Server, peers_python: str, landing: Path) -> None:
    variables = {**environment(), **server.environment, "PYTHONPATH": ""}
    printed = run_peer(peers_python, "-c", PEER, ingest.root, env=variables)
    rows, pixels, unique = map(int, printed.split())
    assert rows == unique == source(landing, CATALOG).num_rows
    assert pixels == len(Catalog.open(ingest.root).pixels)


def test_the_secret_is_in_no_command_line(ingest: Ingest, server: S3Server) -> None:
    assert any("org.apache.spark.deploy.SparkSubmit" in command for command in ingest.commands)
    assert any("spark_jobs/write_partitions.py" in command for command in ingest.commands)
    assert not [command for command in ingest.commands if server.secret in command or server.key in command]


def test_the_secret_is_in_no_log(ingest: Ingest, server: S3Server, airflow: Path) -> None:
    assert f"s3://{ingest.bucket}/warehouse/_runs/" in ingest.log
    assert server.secret not in ingest.log
    for path in (airflow / "logs").rglob("*.log"):
        assert server.secret not in path.read_text(errors="replace"), path


def test_the_secret_is_in_no_file_of_the_bucket(ingest: Ingest, server: S3Server) -> None:
    warehouse = Storage.at(f"s3://{ingest.bucket}/warehouse")
    files = [entry.path for entry in warehouse.list(recursive=True)]
    assert any(path.endswith("requests/write.json") for path in files)
    assert not [path for path in files if server.secret.encode() in warehouse.read(path)]


def test_wrong_keys_end_the_run_with_the_mend(server: S3Server, airflow: Path, tmp_path: Path) -> None:
    wrong = {**server.connection, "password": "of-somebody-else"}
    bucket = server.make_bucket()
    variables = on_s3(server, bucket, AIRFLOW_CONN_SURVEY_STORE=json.dumps(wrong))
    with started(dag_command(), tmp_path / "log", env=variables) as run:
        run.process.wait(120)
        assert "NotWritableError" in run.text()
        assert "check the credentials (HIPSLAKE_STORAGE_CONN" in run.text()
        assert "UP_FOR_RETRY" not in run.text()
    assert "Contents" not in server.client().list_objects_v2(Bucket=bucket)
