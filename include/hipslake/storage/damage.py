"""Tables of our own that cannot be read any more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from hipslake.errors import CatalogFormatError


@contextmanager
def damage_told(where: str) -> Iterator[None]:
    """Turn what pyarrow raises about the bytes of a table into our error; `where` names the file.

    To be put around reads from memory: of those from a store, an `OSError` may mean the store.
    """
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
        told = str(error).strip().partition("\n")[0].rstrip(". ")
        raise CatalogFormatError(f"{where}: is damaged ({told}); restore it, or make it anew") from error
