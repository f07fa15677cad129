"""The parameters that several endpoints of the page take, with their bounds."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from hipslake.sphere.pixels import MAX_ORDER
from pydantic import StringConstraints

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_\-]*$"
MOST_OF_A_NAME = 120
Name = Annotated[str, Path(pattern=NAME_PATTERN, max_length=MOST_OF_A_NAME)]
Number = Annotated[int, Query(ge=1, lt=1 << 31)]
PixelOrder = Annotated[int, Path(ge=0, le=MAX_ORDER)]
PixelNumber = Annotated[int, Path(ge=0, lt=12 << 2 * MAX_ORDER)]
RegionText = Annotated[str, Query(max_length=20_000)]
FilterText = Annotated[str, Query(max_length=10_000)]
ColumnName = Annotated[str, Query(min_length=1, max_length=1_000)]
ColumnNames = Annotated[
    list[Annotated[str, StringConstraints(min_length=1, max_length=1_000)]] | None, Query(max_length=200)
]
