"""What every model of a spec, request, report or metadata file shares."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError


class Frozen(BaseModel):
    """An immutable model that refuses unknown keys: a typing mistake in a file is an error, not a default."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


def first_mistake(error: ValidationError, *, otherwise: str = "") -> str:
    """The first mistake that a validation found: where (`otherwise`, if it is in no field), and what."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"]) or otherwise
    told = first["msg"].removeprefix("Value error, ")
    return f"{where}: {told}" if where else told
