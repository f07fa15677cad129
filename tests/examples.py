"""How many examples of a property are tried: `make test-slow` tries all of them, `make test` a part."""

from __future__ import annotations

import os

ALL = os.environ.get("HIPSLAKE_TEST_EXAMPLES") == "all"


def examples(number: int) -> int:
    """Of so many examples those that this run tries."""
    return number if ALL else max(1, number // 5)
