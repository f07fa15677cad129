"""What every model of a spec, request, report or metadata file shares."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError


class Frozen(BaseModel):
    """An immutable model that refuses unknown keys: a typing mistake in a file is an error, not a default."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


def first_mistake(error: ValidationError, *, within: str = "", otherwise: str = "") -> str:
    """The first mistake that a validation found, in words: where, and what.

    Parameters
    ----------
    error : pydantic.ValidationError
    within : str
        What the model stands for, where that is a part of something larger.
    otherwise : str
        What to name where the mistake is in no single field.
    """
    first = error.errors()[0]
    where = ".".join(str(part) for part in (within, *first["loc"]) if part != "") or otherwise
    told = first["msg"].removeprefix("Value error, ")
    return f"{where}: {told}" if where else told
