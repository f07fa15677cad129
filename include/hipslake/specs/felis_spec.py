"""The Felis schema that describes the columns of a catalog, as a spec names it."""

from __future__ import annotations

from pydantic import Field

from hipslake.specs.base import Frozen


class FelisSpec(Frozen):
    """A table of a Felis schema, whose columns of the same names are described by it."""

    uri: str = Field(min_length=1)  # of the YAML; ${NAME} is an environment variable
    table: str = Field(min_length=1)
    sha256: str | None = None  # of what it said when the run began; it is put there then
