"""What sinks and audits ask of a branch of a table, whatever the table's format."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from hipslake.tables.marks import SinkMark


class BranchState(NamedTuple):
    """A branch of a table that has something which main lacks.

    Attributes
    ----------
    name : str
    head : int
        Its newest version.
    base : int or None
        Main's version when the branch was begun; None if that is not known.
    moved : bool
        Whether main has another version by now, so that the branch cannot simply become main.
    sinks : tuple of SinkMark
        What was sunk into it, in the order of the commits.
    others : tuple of int
        Versions on it that this library has not committed to it.
    """

    name: str
    head: int
    base: int | None
    moved: bool
    sinks: tuple[SinkMark, ...]
    others: tuple[int, ...]


class BranchedTable(Protocol):
    """A table with a branch that waits to become main; opened without one, it is main itself."""

    def branch(self) -> BranchState | None:
        """The branch that the table was opened with; None: it has nothing that main lacks."""

    def publish(self, head: int, tag_of: Callable[[SinkMark], str | None]) -> bool:
        """Make a version of the branch that of main, by one commit that also drops the branch, and sets tags.

        Parameters
        ----------
        head : int
            Of what was looked at. What has come to the branch since stays there.
        tag_of : callable
            Gives the name of a tag for a sink, or None.

        Returns
        -------
        bool
            False: main had it already.

        Raises
        ------
        ConflictError
            Main has moved since the branch was begun, or the branch is gone.
        SpecError
            A tag is of something else.
        CommitStateUnknownError
            The catalog does not say whether it is published.
        """

    def is_published(self, version: int) -> bool:
        """Whether main has a version, or one that came after it on its line."""

    def drop_branch(self) -> None:
        """Take the branch away, if there is one; its versions go with the next vacuum."""
