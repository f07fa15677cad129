"""The locks: they pin what is asked for, and nothing of the machine that compiled them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.txt", "benchmarks/requirements.txt")


def pins(lock: str) -> dict[str, list[Requirement]]:
    """Return the pinned requirements of a lock by name; a name may have one pin per Python."""
    found: dict[str, list[Requirement]] = {}
    for line in (ROOT / lock).read_text().splitlines():
        if line and not line.lstrip().startswith("#"):
            requirement = Requirement(line)
            found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


def asked_for(lock: str) -> list[Requirement]:
    """Return the requirements that a lock is compiled from."""
    if lock.startswith("benchmarks"):
        lines = (ROOT / "benchmarks" / "requirements.in").read_text().splitlines()
        return [Requirement(line) for line in lines if line and not line.startswith("#")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    return [
        Requirement(text)
        for text in [*project["dependencies"], *(text for extra in extras for text in extra)]
    ]


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_holds_what_is_asked_for(lock: str) -> None:
    pinned = pins(lock)
    for wanted in asked_for(lock):
        for pin in pinned[canonicalize_name(wanted.name)]:
            (version,) = (specifier.version for specifier in pin.specifier)
            assert wanted.specifier.contains(version, prereleases=True), f"{wanted}: run `make lock`"


@pytest.mark.parametrize("lock", LOCKS)
def test_every_line_is_an_exact_version_from_any_index(lock: str) -> None:
    for requirements in pins(lock).values():
        for pin in requirements:
            assert [specifier.operator for specifier in pin.specifier] == ["=="]
            assert pin.url is None
    assert not re.search(r"://|--index|--find-links|file:|^-[a-z] ", (ROOT / lock).read_text(), re.MULTILINE)


def test_spark_and_its_client_have_the_same_version() -> None:
    pinned = pins("requirements.txt")
    assert pinned["pyspark"][0].specifier == pinned["pyspark-client"][0].specifier
