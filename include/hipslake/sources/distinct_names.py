"""Names of columns that readers could not tell apart."""

from __future__ import annotations

from hipslake.errors import ReservedColumnError


def check_distinct(names: list[str] | tuple[str, ...], where: str) -> None:
    """Raise `ReservedColumnError` when names are equal, or differ only by case: most readers fold case."""
    first: dict[str, int] = {}
    places = ((first.setdefault(name.casefold(), at), at) for at, name in enumerate(names))
    pairs = [(names[earlier], names[at]) for earlier, at in places if earlier != at]
    if pairs:
        clashes = "; ".join(
            f"{name!r} stands twice" if name == other else f"{name!r} and {other!r} differ only by case"
            for name, other in pairs
        )
        raise ReservedColumnError(f"{where}: column {clashes}; rename one")
