"""How many examples of a property are tried: `make test-slow` tries all of them, `make test` a part."""

from __future__ import annotations

import os

ALL = os.environ.get("HIPSLAKE_TEST_EXAMPLES") == "all"


def examples(number: int, part: int = 5) -> int:
    """Of so many examples those that this run tries: all of them, or one in `part`."""
    return number if ALL else max(1, number // part)
