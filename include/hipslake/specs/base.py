"""What every model of a spec, request, report or metadata file shares."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """An immutable model that refuses unknown keys: a typing mistake in a file is an error, not a default."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
