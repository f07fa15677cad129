"""The deployment without containers: `python -m hipslake_cluster up | down | status | restart | kill`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from hipslake.specs.environment import PROJECT_ROOT

from hipslake_cluster.cluster import NETWORK, Cluster, ClusterError
from hipslake_cluster.image import ImageError
from hipslake_cluster.processes import UMASK, Background

KEEPER = "keeper"
_PAUSE_SECONDS = 2.0


def say(message: str) -> None:
    """Print one line for the user, at once."""
    print(f"hipslake: {message}", flush=True)


def cluster_here() -> Cluster:
    """Return the cluster of this checkout, as the environment says."""
    place = Path(os.environ.get("HIPSLAKE_CLUSTER") or PROJECT_ROOT / ".cluster").absolute()
    image = Path(os.environ.get("HIPSLAKE_IMAGE") or PROJECT_ROOT / ".image").absolute()
    network = os.environ.get("HIPSLAKE_CLUSTER_NETWORK", NETWORK)
    return Cluster(PROJECT_ROOT, place, image, os.environ, network)


def keeper_of(cluster: Cluster) -> Background:
    """The process that starts services again, as a container engine does."""
    return Background(cluster.place / KEEPER, f"{cluster.place}#{KEEPER}")


def up(cluster: Cluster) -> None:
    """Start all services that do not run, and the process that restarts them when they end."""
    seconds = float(os.environ.get("HIPSLAKE_UP_SECONDS", "600"))
    keeper = keeper_of(cluster)
    keeper.stop()  # two who start the same service would meet
    try:
        cluster.up(say, seconds=seconds)
    finally:
        keeper.start([sys.executable, "-m", "hipslake_cluster", "keep"], os.environ, cluster.place)
    say(f"the cluster is up: {cluster.url}; `make cluster-down` stops it")
    print(f"  login   user admin, password {cluster.keys['HIPSLAKE_ADMIN_PASSWORD']}")
    print(f"  secrets {cluster.place / 'secrets.env'}\n  logs    {cluster.place / 'services'}/*/log")


def keep(cluster: Cluster) -> None:
    """Start services again that end, until this process is ended."""
    while True:
        try:
            for name in cluster.revive():
                say(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {name} had ended; it is started again")
        except (ClusterError, OSError, RuntimeError) as error:
            say(f"{error}")
        time.sleep(_PAUSE_SECONDS)


def down(cluster: Cluster) -> None:
    """Stop everything of the cluster, and nothing else."""
    keeper_of(cluster).stop()
    if not cluster.was_begun:
        say("there is no cluster")
        return
    cluster.down(say)
    say("the cluster is stopped; its volumes stay, except for the store's, which was in memory")


def status(cluster: Cluster) -> bool:
    """Say what became of each service; whether all is well."""
    states = cluster.status()
    for state in states:
        address = cluster.addresses[state.name]
        print(f"{state.name:15} {state.state:10} {address:13} {state.pid or '':<8} {state.log}")
    return all(state.state in ("healthy", "running", "completed") for state in states)


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m hipslake_cluster", description="Run the deployment as processes."
    )
    parser.add_argument("what", choices=["up", "down", "status", "restart", "kill", "keep"])
    parser.add_argument("service", nargs="?")
    told = parser.parse_args()
    os.umask(UMASK)
    cluster = cluster_here()
    if (told.what in ("restart", "kill")) != (told.service in cluster.addresses):
        parser.error(f"restart and kill take one of: {', '.join(cluster.addresses)}")
    try:
        if told.what == "restart":
            cluster.background(told.service).stop(seconds=cluster.services[told.service].stop_grace_period)
            cluster.start(told.service)
        elif told.what == "kill":
            say(f"{cluster.kill(told.service)} processes of {told.service} are killed")
        else:
            return int({"up": up, "down": down, "status": status, "keep": keep}[told.what](cluster) is False)
    except (ClusterError, ImageError, RuntimeError, ValueError) as error:
        print(f"hipslake: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
