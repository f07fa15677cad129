"""Services as processes: in order, from the image, in their own places; killed, started again, stopped."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from hipslake_cluster.cluster import Cluster, ClusterError

from tests.airflow_home import PROJECT

NETWORK = "127.79.0"
DOCKERFILE = """\
FROM python:3.11-slim-bookworm
WORKDIR /opt/hipslake
COPY requirements.txt ./
RUN pip --version # of requirements.txt
COPY pages pages
RUN mkdir -p /opt/airflow/logs /data/state
ENV PAGES=/opt/hipslake/pages SCRATCH=/opt/airflow/scratch KEPT=/data/state
"""
COMPOSE = """\
services:
  s3:
    image: ours
    restart: unless-stopped
    command: python -m http.server --bind ${HIPSLAKE_AT_S3:-s3} --directory /opt/hipslake/pages 9000
    healthcheck:
      test: [CMD, python, -c, "import urllib.request as r; r.urlopen('http://${HIPSLAKE_AT_S3:-s3}:9000/a.txt')"]
    depends_on:
      prepare:
        condition: service_completed_successfully
  prepare:
    image: ours
    command: >-
      bash -c 'echo "$$PAGES ${TOLD:-nothing} $$SECRET" > /data/prepared; env > "$$SCRATCH"; ${ENDS:-true}'
    environment:
      SECRET: ${HIPSLAKE_SECRET:?draw it}
    volumes: [data:/data]
  api-server:
    image: ours
    restart: unless-stopped
    command: [bash, -c, "sleep 1000 & exec sleep 1001"]
    stop_grace_period: 1s  # it leaves a process behind, which is killed then
    depends_on: [s3]
volumes:
  data:
"""


def make(place: Path, network: str = NETWORK, **variables: str) -> Cluster:
    project = place / "project"
    (project / "pages").mkdir(parents=True, exist_ok=True)
    (project / "pages" / "a.txt").write_text("found")
    (project / "requirements.txt").touch()
    (project / "Dockerfile").write_text(DOCKERFILE)
    (project / "docker-compose.yml").write_text(COMPOSE)
    return Cluster(project, place / "cluster", place / "image", variables, network)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = make(tmp_path_factory.mktemp("cluster"), TOLD="/data/of/the/user")
    cluster.up()
    yield cluster
    cluster.down()


def test_what_the_cluster_and_its_services_make_nobody_else_reads(cluster: Cluster) -> None:
    assert stat.S_IMODE(cluster.place.stat().st_mode) == 0o700
    made = [cluster.place / "volumes" / "data" / "prepared", cluster.place / "secrets.env"]
    made += [cluster.background(name).log for name in cluster.services]
    made += list((cluster.place / "services").rglob("scratch"))
    assert len(made) >= 6
    assert {path: oct(stat.S_IMODE(path.stat().st_mode)) for path in made} == dict.fromkeys(made, "0o600")


def test_services_run_from_the_image_each_at_an_address_of_its_own(cluster: Cluster) -> None:
    assert list(cluster.services) == ["prepare", "s3", "api-server"]
    with urllib.request.urlopen(f"http://{NETWORK}.10:9000/a.txt") as answer:
        assert answer.read() == b"found"
    assert cluster.url == f"http://{NETWORK}.12:8080"
    states = {state.name: state.state for state in cluster.status()}
    assert states == {"s3": "healthy", "prepare": "completed", "api-server": "running"}


def test_paths_of_the_container_are_those_of_this_machine_and_values_of_the_user_stay(
    cluster: Cluster,
) -> None:
    prepared = (cluster.place / "volumes" / "data" / "prepared").read_text().split()
    pages = f"{cluster.image.root}/opt/hipslake/pages"
    assert prepared == [pages, "/data/of/the/user", cluster.keys["HIPSLAKE_SECRET"]]
    told = (cluster.place / "services/prepare/root/opt/airflow/scratch").read_text().splitlines()
    environment = dict(line.split("=", 1) for line in told if "=" in line)
    assert environment["KEPT"] == f"{cluster.place}/volumes/data/state", "a folder in a volume"
    assert Path(sys.executable).parent not in map(Path, environment["PATH"].split(":")), "only the image's"
    assert not [name for name in environment if name.startswith(("PYTEST", "PYTHONPATH"))]


def test_what_runs_is_left_alone(cluster: Cluster) -> None:
    before = [state.pid for state in cluster.status()]
    cluster.up()
    assert [state.pid for state in cluster.status()] == before


def test_a_killed_service_is_started_again_and_the_others_go_on(cluster: Cluster) -> None:
    before = {state.name: state.pid for state in cluster.status()}
    assert cluster.kill("api-server") == 2
    assert {state.name: state.state for state in cluster.status()}["api-server"] == "dead"
    assert cluster.revive() == ["api-server"]
    after = {state.name: state.pid for state in cluster.status()}
    assert after.pop("api-server") != before.pop("api-server")
    assert after == before
    assert cluster.revive() == []


def test_another_cluster_may_not_take_its_addresses(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"port 9000 of 127\.79\.0\.10 is taken.*HIPSLAKE_CLUSTER_NETWORK"):
        make(tmp_path).up()
    assert {state.state for state in cluster.status()} == {"healthy", "completed", "running"}


def test_addresses_that_the_machine_does_not_have_are_told(tmp_path: Path) -> None:
    cluster = make(tmp_path, "192.0.2")
    with pytest.raises(ClusterError, match=r"192\.0\.2\.10 is no address of this machine"):
        cluster.up()


def test_a_step_that_fails_is_told_with_its_log_and_nothing_after_it_starts(
    cluster: Cluster, tmp_path: Path
) -> None:
    broken = make(tmp_path, "127.80.0", ENDS="exit 3")
    broken.image = cluster.image
    with pytest.raises(ClusterError, match=r"prepare failed; its log: .*services/prepare/log"):
        broken.up(seconds=60)
    assert {state.state for state in broken.status()} == {"stopped", "dead"}
    broken.down()


def test_down_ends_all_of_it_and_keeps_volumes_and_secrets(cluster: Cluster) -> None:
    keys = cluster.keys
    cluster.down()
    assert {state.state for state in cluster.status()} == {"stopped"}
    assert not [process for name in cluster.addresses for process in cluster.background(name).family()]
    cluster.up()
    assert cluster.keys == keys
    assert (cluster.place / "volumes" / "data" / "prepared").exists()


def test_the_one_of_this_checkout_says_what_it_would_run() -> None:
    command = [sys.executable, "-m", "hipslake_cluster", "status"]
    variables = {**os.environ, "PYTHONPATH": str(PROJECT / "include"), "HIPSLAKE_CLUSTER": "/nonexistent"}
    done = subprocess.run(command, env=variables, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["stopped"] * 10, done.stderr


def test_where_nothing_was_started_there_is_nothing_to_stop(tmp_path: Path) -> None:
    bare = {name: value for name, value in os.environ.items() if not name.startswith("HIPSLAKE_")}
    done = subprocess.run(
        [sys.executable, "-m", "hipslake_cluster", "down"],
        env={**bare, "HIPSLAKE_CLUSTER": str(tmp_path / "cluster")},
        cwd=PROJECT,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "hipslake: there is no cluster\n"), done.stderr
