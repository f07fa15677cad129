"""The services of docker-compose.yml as plain processes: started, killed, started again and stopped.

Every service has a loopback address of its own, as a container has one of its network: so all ports are those
of the compose file, and clusters on different networks do not meet. Linux answers on all of 127.0.0.0/8.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import yaml

from hipslake_cluster.compose import COMPLETED, HEALTHY, Service, read_services
from hipslake_cluster.image import Image
from hipslake_cluster.keys import complete_keys, read_keys
from hipslake_cluster.paths import with_local_paths
from hipslake_cluster.processes import UMASK, Background
from hipslake_cluster.stand_ins import S3_PORT, STAND_INS, StandIn

NETWORK = "127.77.0"
_FIRST = 10  # of the addresses
_KEPT = (
    "PATH",
    "HOME",
    "JAVA_HOME",
    "LANG",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
)  # of this process's environment
_OWN_PROGRAMS = str(Path(sys.executable).parent)
_LOOK_SECONDS = 0.5
_PORTS = {"postgres": 5432, "s3": S3_PORT, "api-server": 8080, "spark-master": 7077}


class ClusterError(RuntimeError):
    """The cluster cannot be started, or a service of it did not come up."""


class State(NamedTuple):
    """What became of a service."""

    name: str
    state: str  # "healthy", "unhealthy", "running", "completed", "dead" or "stopped"
    pid: int | None
    log: Path


class Cluster:
    """The services of a compose file, run from a folder.

    Parameters
    ----------
    project : Path
        The checkout: docker-compose.yml, Dockerfile, and what they name.
    place : Path
        Volumes, logs, secrets and process files come to lie here.
    image : Path
        The folder of the image; several clusters may share one.
    variables : mapping of str to str
        For `${NAME}` in the compose file; goes before the secrets that are drawn.
    network : str
        The first three numbers of the services' addresses. A place keeps those that it began with.
    """

    def __init__(
        self,
        project: Path,
        place: Path,
        image: Path,
        variables: Mapping[str, str] | None = None,
        network: str = NETWORK,
    ) -> None:
        self.project = project
        self.place = place
        self.image = Image(project, image)
        self._given = dict(variables or {})
        self._network = network
        self._compose = project / "docker-compose.yml"

    @property
    def network(self) -> str:
        """The first three numbers of its addresses."""
        remembered = self.place / "network"
        return remembered.read_text().strip() if remembered.exists() else self._network

    @property
    def was_begun(self) -> bool:
        """Whether it was ever started: the first start draws its secrets."""
        return (self.place / "secrets.env").exists()

    @property
    def keys(self) -> dict[str, str]:
        """Its secrets, by the names of their variables."""
        return read_keys(self.place / "secrets.env")

    @cached_property
    def addresses(self) -> dict[str, str]:
        """The loopback address of each service."""
        names = yaml.safe_load(self._compose.read_text())["services"]
        return {name: f"{self.network}.{_FIRST + at}" for at, name in enumerate(names)}

    @property
    def url(self) -> str:
        """The address of the UI and the API."""
        return f"http://{self.addresses['api-server']}:8080"

    @property
    def variables(self) -> dict[str, str]:
        """The values of the variables `${NAME}` of the compose file."""
        at = {f"HIPSLAKE_AT_{name.upper().replace('-', '_')}": to for name, to in self.addresses.items()}
        here = {"HIPSLAKE_URL": self.url, "HIPSLAKE_S3_ENDPOINT": f"http://{self.addresses['s3']}:{S3_PORT}"}
        return {**at, **here, **self.keys, **self._given}

    @cached_property
    def services(self) -> dict[str, Service]:
        """The services by name, in an order in which they can be started."""
        return read_services(self._compose, self.variables, self._local)

    def background(self, name: str) -> Background:
        """The processes of a service."""
        return Background(self.place / "services" / name, f"{self.place}#{name}")

    def up(self, say: Callable[[str], None] = lambda _: None, *, seconds: float = 600) -> None:
        """Start what does not run, in the order of the compose file, and wait until all is healthy.

        Raises
        ------
        ClusterError
            If a service ends, or is not healthy in time. The others go on running.
        ImageError
            If a step of the Dockerfile fails.
        """
        self.place.mkdir(parents=True, exist_ok=True)
        self.place.chmod(0o777 & ~UMASK)  # also that of before
        complete_keys(self.place / "secrets.env")
        self._check_addresses()
        (self.place / "network").write_text(f"{self.network}\n")
        self.image.build(say)
        end = time.monotonic() + seconds
        waiting = [name for name in self.services if not self._is_there(name)]
        while waiting:
            ready = [name for name in waiting if self._may_start(name)]
            for name in ready:
                say(f"starting {name}")
                self.start(name)
                waiting.remove(name)
            failed = [name for name in self.services if self._has_failed(name)]
            if failed:
                raise ClusterError(f"{failed[0]} failed; its log: {self.background(failed[0]).log}")
            if not ready:
                self._wait(end, f"{', '.join(waiting)}: what they wait for did not come up")
        for name, service in self.services.items():
            while service.healthcheck and not self.is_healthy(name):
                if self.background(name).pid is None:
                    raise ClusterError(f"{name} ended; its log: {self.background(name).log}")
                self._wait(end, f"{name} is not healthy; its log: {self.background(name).log}")

    def start(self, name: str) -> None:
        """Start a service, whatever became of its earlier processes."""
        service, run = self.services[name], self.background(name)
        stand_in = self._stand_in(service)
        if stand_in:
            stand_in.prepare()
        command = stand_in.command if stand_in else self._found(list(service.command), service)
        if not service.is_kept:
            command = ["sh", "-c", '"$@" && touch -- "$0"', str(self._completed(name)), *command]
        run.start(command, self._environment(service), self._folders(service))

    def kill(self, name: str) -> int:
        """Kill all processes of a service with SIGKILL; how many that were."""
        return self.background(name).kill()

    def is_healthy(self, name: str) -> bool:
        """Whether a service runs, and its health check ends well."""
        service = self.services[name]
        if self.background(name).pid is None or service.healthcheck is None:
            return self.background(name).pid is not None
        stand_in = self._stand_in(service)
        command = stand_in.health if stand_in else list(service.healthcheck.test)
        try:
            done = subprocess.run(
                self._found(command, service),
                env=self._environment(service),
                capture_output=True,
                timeout=service.healthcheck.timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def status(self) -> list[State]:
        """Return what became of each service."""
        return [self._state(name) for name in self.addresses]

    def revive(self) -> list[str]:
        """Start the services again that ended although they are to be kept; their names."""
        dead = [name for name, service in self.services.items() if service.is_kept and self._is_dead(name)]
        for name in dead:
            self.start(name)
        return dead

    def down(self, say: Callable[[str], None] = lambda _: None) -> None:
        """Stop all services, the last to be started first. Volumes and secrets stay."""
        for name in reversed(self.services):
            run = self.background(name)
            self._completed(name).unlink(missing_ok=True)
            if run.was_started or run.family():
                say(f"stopping {name}")
                # At once: with SIGTERM, PostgreSQL waits for all who are connected.
                sign = signal.SIGINT if name == "postgres" else signal.SIGTERM
                run.stop(seconds=self.services[name].stop_grace_period, sign=sign)

    def _state(self, name: str) -> State:
        run = self.background(name)
        if self._completed(name).exists():
            return State(name, "completed", None, run.log)
        if run.pid is None:
            return State(name, "dead" if run.was_started else "stopped", None, run.log)
        healthy = "healthy" if self.is_healthy(name) else "unhealthy"
        return State(name, healthy if self.services[name].healthcheck else "running", run.pid, run.log)

    def _completed(self, name: str) -> Path:
        """The marker file of a service that has completed successfully."""
        return self.background(name).folder / "completed"

    def _has_failed(self, name: str) -> bool:
        return not self.services[name].is_kept and self._is_dead(name) and not self._completed(name).exists()

    def _is_dead(self, name: str) -> bool:
        run = self.background(name)
        return run.was_started and run.pid is None

    def _is_there(self, name: str) -> bool:
        """Whether a service runs, or has completed."""
        run = self.background(name)
        return run.pid is not None or self._completed(name).exists()

    def _may_start(self, name: str) -> bool:
        """Whether all that a service depends on has come to what it asks for."""
        for other, condition in self.services[name].depends_on.items():
            if condition == COMPLETED:
                if not self._completed(other).exists():
                    return False
            elif (condition == HEALTHY and not self.is_healthy(other)) or not self._is_there(other):
                return False
        return True

    def _wait(self, end: float, why: str) -> None:
        if time.monotonic() > end:
            raise ClusterError(why)
        time.sleep(_LOOK_SECONDS)

    def _check_addresses(self) -> None:
        """See that the machine has the addresses, and that nobody else listens there."""
        another = "choose another network: HIPSLAKE_CLUSTER_NETWORK=127.78.0"
        for name, address in self.addresses.items():
            with socket.socket() as probe:
                try:
                    probe.bind((address, 0))
                except OSError as error:
                    raise ClusterError(
                        f"{address} is no address of this machine ({error}); {another}"
                    ) from None
            port = _PORTS.get(name)
            if port and not self.background(name).family():
                with socket.socket() as probe:
                    if probe.connect_ex((address, port)) == 0:
                        raise ClusterError(f"port {port} of {address} is taken by another program; {another}")

    def _found(self, command: list[str], service: Service) -> list[str]:
        """Return a command with the path of its program, which is looked for where the service finds it."""
        for folder in self._environment(service)["PATH"].split(os.pathsep):
            program = Path(folder) / command[0]
            if program.is_file() and os.access(program, os.X_OK):
                return [str(program), *command[1:]]
        return command

    def _stand_in(self, service: Service) -> StandIn | None:
        make = STAND_INS.get(service.image.partition(":")[0])
        if make is None:
            return None
        return make(service, self._volume(next(iter(service.volumes.values()))), self.addresses[service.name])

    def _environment(self, service: Service) -> dict[str, str]:
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        stand_in = self._stand_in(service)
        if stand_in:
            path = os.pathsep.join(filter(None, [stand_in.path, kept.get("PATH", os.defpath)]))
            return {**kept, **service.environment, **stand_in.environment, "PATH": path}
        # Not what is installed for this process: only what is in the image counts.
        elsewhere = [path for path in kept.get("PATH", os.defpath).split(os.pathsep) if path != _OWN_PROGRAMS]
        path = os.pathsep.join([self.image.at("/usr/local/bin"), *elsewhere])
        of_image = {
            name: self._local(service.name, service.volumes, value)
            for name, value in self.image.variables.items()
        }
        return {**kept, **of_image, **service.environment, "PATH": path}

    def _folders(self, service: Service) -> Path:
        """Make the folders that the image has, and return the one to start in."""
        root = self.place / "services" / service.name / "root"
        root.mkdir(parents=True, exist_ok=True)
        if self._stand_in(service):
            return root
        for path in [*self.image.folders, *service.volumes]:
            Path(self._local(service.name, service.volumes, path)).mkdir(parents=True, exist_ok=True)
        return Path(self.image.at("/opt/hipslake"))

    def _volume(self, name: str) -> Path:
        return self.place / "volumes" / name

    def _local(self, name: str, volumes: Mapping[str, str], text: str) -> str:
        """Return a text with the paths of a service's container as they are on this machine."""
        own = self.place / "services" / name / "root"
        places = {path: self._volume(to) if to else Path(f"{own}{path}") for path, to in volumes.items()}
        return with_local_paths(text, self.image, own, places)
