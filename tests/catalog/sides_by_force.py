"""Matches of which a test says what side is small, whatever sizes the sides have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.catalog.joining import pairing


@contextmanager
def small(side: str | None) -> Iterator[None]:
    """One side of each match is small, or none is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairing, "small_side", lambda *_: side)
        yield


def matched(side: str | None, left: Catalog, right: Catalog, **asked: Any) -> pa.Table:
    """The outcome where one side is small."""
    with small(side):
        return left.crossmatch(right, **asked)
