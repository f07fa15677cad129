"""Catalogs that come of other catalogs: of joins, and of the joined rows of cubes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from hipslake.errors import SpecError
from hipslake.specs.join_specs import JoinSpec
from hipslake.specs.vacuum_spec import VacuumSpec
from hipslake.specs.yaml_file import (
    find_specs,
    load_crossmatch_spec,
    load_cube_spec,
    load_equijoin_spec,
    spec_type,
)

_JOINS: dict[str | None, Callable[[Path], JoinSpec]] = {
    "crossmatch": load_crossmatch_spec,
    "equijoin": load_equijoin_spec,
}


class Outcome(NamedTuple):
    """A catalog that no file of `include/specs/catalogs` names, and how long its versions stay."""

    name: str
    vacuum: VacuumSpec


def outcomes(joins: Path, cubes: Path) -> Iterator[Outcome]:
    """Find the catalogs that the specs of two folders lead to; what is wrong with one its own DAGs tell.

    Parameters
    ----------
    joins, cubes : Path
        The folders of the specs of joins and of cubes.
    """
    for path in find_specs(joins):
        load = _JOINS.get(spec_type(path))
        with suppress(SpecError):
            if load is not None:
                join = load(path)
                yield Outcome(join.name, join.vacuum)
    for path in find_specs(cubes):
        with suppress(SpecError):
            joined = load_cube_spec(path).materialise
            if joined is not None and joined.name is not None:
                yield Outcome(joined.name, joined.vacuum)
