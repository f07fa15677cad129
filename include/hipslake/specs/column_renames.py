"""Columns of a table that a spec renames."""

from __future__ import annotations

from collections.abc import Mapping

from hipslake.specs.base import repeated


def check_renames(renames: Mapping[str, str]) -> None:
    """Hold renames of columns against each other.

    Parameters
    ----------
    renames : mapping of str to str
        From names of columns (`a`), or of parts of nested ones (`a.b`), to the last part of their new ones.

    Raises
    ------
    ValueError
        They do not fit.

    Examples
    --------
    >>> check_renames({"mag": "mag_g", "position.ra": "lon"})
    """
    for old, new in renames.items():
        if "." in new:
            raise ValueError(f"rename: {old}: {new!r} has a dot; write the last part of the new name alone")
        if old.rpartition(".")[2] == new:
            raise ValueError(f"rename: {old}: is called {new} already; leave it out")
    made = [".".join([*old.split(".")[:-1], new]) for old, new in renames.items()]
    if twice := repeated(made):
        raise ValueError(f"rename: two columns would be called {twice[0]}; give one of them another name")
    if both := sorted(set(made) & set(renames)):
        raise ValueError(
            f"rename: {both[0]} is an old name and a new one; rename one, run the sink, then the other"
        )
    if below := [old for old in renames if any(old.startswith(f"{each}.") for each in renames)]:
        raise ValueError(
            f"rename: {below[0]} lies in a column that is renamed too; rename one after the other"
        )
