"""What a compose file says of its services, as far as running them takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from hipslake_cluster.interpolation import interpolate, with_texts

STARTED, HEALTHY, COMPLETED = "service_started", "service_healthy", "service_completed_successfully"
Rewriting = Callable[[str, dict[str, str], str], str]
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class Healthcheck(_Frozen):
    """A command that ends well while the service is healthy; times in seconds."""

    test: tuple[str, ...]
    interval: float = 30.0
    timeout: float = 30.0


class Service(_Frozen):
    """A service: one process, started from an image."""

    name: str
    image: str
    command: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    depends_on: dict[str, str] = {}  # service -> what it must have come to
    healthcheck: Healthcheck | None = None
    restart: str = "no"
    volumes: dict[str, str] = {}  # folder in the container -> name of the volume; "" is one of its own
    stop_grace_period: float = 10.0

    @property
    def is_kept(self) -> bool:
        """Whether it is started again when it ends."""
        return self.restart != "no"


def read_services(
    path: Path, variables: Mapping[str, str], rewritten: Rewriting = lambda _name, _volumes, text: text
) -> dict[str, Service]:
    """Return the services of a compose file by name, in an order in which they can be started.

    Parameters
    ----------
    path : Path
    variables : mapping of str to str
        For `${NAME}` in the file.
    rewritten : callable
        Given a service's name, its volumes, and a text of its command, environment or health check, returns
        what stands for the text; before variables are replaced.

    Raises
    ------
    MissingVariableError
        If a variable that must be set is not.
    ValueError
        If the file is none, or services wait for each other.
    """
    try:
        document = yaml.safe_load(path.read_text())
        found = document["services"]
    except (yaml.YAMLError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is no compose file: {error}") from None
    told = {name: _rewritten(name, entry, rewritten) for name, entry in found.items()}
    services = {name: _service(name, entry) for name, entry in interpolate(told, variables).items()}
    order = TopologicalSorter({name: list(service.depends_on) for name, service in services.items()})
    return {name: services[name] for name in order.static_order()}


def required_variables(path: Path) -> list[str]:
    """Return the names of the variables that a compose file does not start without."""
    return sorted(set(re.findall(r"\$\{(\w+):?\?", path.read_text())))


def _rewritten(name: str, entry: dict[str, Any], rewritten: Rewriting) -> dict[str, Any]:
    change = partial(rewritten, name, _volumes(entry))
    inside = ("command", "environment", "healthcheck")
    return {key: with_texts(part, change) if key in inside else part for key, part in entry.items()}


def _service(name: str, entry: dict[str, Any]) -> Service:
    health = entry.get("healthcheck")
    return Service(
        name=name,
        image=entry["image"],
        command=_words(entry.get("command") or []),
        environment={key: str(value) for key, value in (entry.get("environment") or {}).items()},
        depends_on=_conditions(entry.get("depends_on") or []),
        healthcheck=_healthcheck(health) if health else None,
        restart=str(entry.get("restart", "no")),
        volumes=_volumes(entry),
        stop_grace_period=_seconds(entry.get("stop_grace_period", "10s")),
    )


def _healthcheck(entry: dict[str, Any]) -> Healthcheck:
    kind, *words = entry["test"]
    test = ("sh", "-c", *words) if kind == "CMD-SHELL" else tuple(words)
    times = {name: _seconds(entry[name]) for name in ("interval", "timeout") if name in entry}
    return Healthcheck(test=test, **times)


def _words(command: str | list[str]) -> tuple[str, ...]:
    return tuple(shlex.split(command) if isinstance(command, str) else command)


def _conditions(entry: list[str] | dict[str, dict[str, str]]) -> dict[str, str]:
    if isinstance(entry, list):
        return dict.fromkeys(entry, STARTED)
    return {name: told.get("condition", STARTED) for name, told in entry.items()}


def _volumes(entry: dict[str, Any]) -> dict[str, str]:
    return dict(map(_volume, entry.get("volumes") or []))


def _volume(entry: str) -> tuple[str, str]:
    volume, _, folder = entry.partition(":")
    return (folder.partition(":")[0], volume) if folder else (volume, "")


def _seconds(text: str) -> float:
    """Return the seconds of a duration such as `1m30s`."""
    parts = re.findall(r"([\d.]+)(ms|s|m|h)", text)
    if not parts:
        raise ValueError(f"{text!r} is no duration such as 30s")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
