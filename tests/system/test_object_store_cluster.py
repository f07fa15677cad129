"""Workers of a Spark cluster on S3: they get the keys of the task's connection, and nobody else sees them."""

from __future__ import annotations

import sys
from pathlib import Path

from hipslake import Catalog

from tests.steps import in_process
from tests.stores.s3_server import running_s3
from tests.system.cluster import running_cluster
from tests.system.runs import finish
from tests.system.stores import on_s3, watched_commands
from tests.system.trees import started


def test_workers_get_the_keys_from_their_driver(airflow: Path, tmp_path: Path) -> None:
    rows = in_process.write_source(tmp_path / "landing", rows=6000)
    (tmp_path / "cluster").mkdir()
    with (
        running_s3(guarded=True) as server,
        server.reached(),
        running_cluster(tmp_path / "cluster") as cluster,
    ):
        bucket = server.make_bucket()
        for path in (tmp_path / "landing").iterdir():
            server.client().upload_file(str(path), bucket, f"landing/{path.name}")
        spec = in_process.write_spec(
            tmp_path / "stars.yaml", f"s3://{bucket}/landing/*.parquet", threshold="1000 rows"
        )
        folder = in_process.start(f"s3://{bucket}/warehouse", spec)
        for step in (in_process.freeze, in_process.count, in_process.make_plan):
            step(folder)
        command = [sys.executable, "-m", "tests.system.run_operator", "write", folder.uri]
        variables = on_s3(server, bucket, spark=cluster.connection, **cluster.client)
        with watched_commands() as seen, started(command, tmp_path / "log", env=variables) as job:
            job.wait()
            told = job.text()
        in_process.check(folder)
        finish(folder)
        found = Catalog.open(folder.run().catalog_uri).read(rows.schema.names)
        assert found.sort_by("id").combine_chunks().equals(rows.combine_chunks())
        assert any("CoarseGrainedExecutorBackend" in one for one in seen)
        assert not [one for one in seen if server.secret in one]
        assert server.secret not in told
        written = [path for path in cluster.place.rglob("*") if path.is_file() and not path.is_symlink()]
        logs = [path for path in written if cluster.work in path.parents or path.parent == cluster.place]
        assert any(path.name == "stderr" for path in logs)
        assert not [path for path in logs if server.secret.encode() in path.read_bytes()]
