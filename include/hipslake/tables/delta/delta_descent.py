"""Traces the rows of a write through the files of a Delta table, and the commits that have rewritten them.

As `hipslake.tables.iceberg.descent` does: a file that holds rows of one write only is known by its folder, or
by what compactions have noted; elsewhere rows are found as a multiset, by value. What others do between two
commits of ours counts as one change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from hipslake.errors import PlanError
from hipslake.tables.delta.delta_actions import OURS, Action, write_in
from hipslake.tables.delta.delta_files import DeltaFile, write_of_path
from hipslake.tables.delta.delta_lineage import Lineage
from hipslake.tables.delta.delta_log import DeltaLog, LogState
from hipslake.tables.delta.delta_marks import DeltaMarks
from hipslake.tables.delta.delta_origins import is_kept, origin_of, origins_noted, writes_with_rows_of
from hipslake.tables.marks import SinkMark
from hipslake.tables.protocol import Descent, Rewriting

ALONE = "alone"
"""In what a commit of a sink says of itself: its own rows lie in other files than those that it kept."""


@dataclass(frozen=True)
class _Step:
    """What a version of the line has changed, relative to the one that it descends from.

    A file that comes may have been there before, with another deletion vector.
    """

    version: int
    info: Action
    came: dict[str, Action]
    gone: dict[str, Action]

    @property
    def is_ours(self) -> bool:
        return bool(write_in(self.info))

    @property
    def tells_rows_apart(self) -> bool:
        return (self.info.get(OURS) or {}).get(ALONE) == "true"


def delta_descent(table: DeltaLog, state: LogState, sunk: SinkMark, *, full: bool = False) -> Descent:
    """Find the way of the rows of a sink, as far back as the log goes.

    Parameters
    ----------
    table : DeltaLog
    state : LogState
        The version.
    sunk : SinkMark
    full : bool
        Whether all that others have added since counts too, in whatever files. That is needed if rows have
        left the table: they may have come back, or been changed.

    Raises
    ------
    PlanError
        Rows of its files were deleted by deletion vectors.
    """
    lineage = Lineage.of(table, state.version)
    line = sorted(lineage.line.intersection(table.versions()))
    live = dict(table.at(line[0]).files) if line else dict(state.files)
    steps = list(_steps(table, lineage, line, live))
    begin = 0
    if not _has_files_of(live, sunk.write):
        found = [at for at, step in enumerate(steps) if _has_files_of(step.came, sunk.write)]
        for step in steps[: found[0] + 1 if found else 0]:
            _apply(step, live)
        begin = found[0] + 1 if found else 0
    is_told = begin > 0 or (bool(line) and write_in(lineage.infos[line[0]]) == sunk.write)
    location = table.location
    of_write = writes_with_rows_of(location, sunk.write)
    pure = [path for path in live if _owner(path) in of_write]
    rows = sum(DeltaFile(live[path], state).rows for path in pure)
    # Later on, as many rows of others may have come into its files as it has lost elsewhere.
    whole = rows == sunk.rows and (is_told or sunk.alone is True)
    numbers = _NumberedFiles()
    first = pure if whole else _candidates(location, live, pure, DeltaMarks(table, state).writes_alone)
    begun = tuple(numbers.of(path, live[path]) for path in first)
    some = [] if is_told or not full else [path for path in live if not write_of_path(path)]
    suspects = tuple(numbers.of(path, live[path]) for path in some)
    followed = set(numbers.paths)
    rewritings = []
    for ours, change in _changes(steps[begin:]):
        gone, came = _net(change, live)
        taken = followed & gone.keys()
        if not taken and (ours or not full or not (gone or came)):
            continue
        _check_no_vectors(sunk, [*gone.values(), *came.values()])
        removed = [numbers.of(path, each) for path, each in gone.items() if path in taken or not ours]
        if ours and change[0].tells_rows_apart:
            came = {path: each for path, each in came.items() if not _owner(path)}  # found, and kept
        elif not ours:
            came = {
                path: each for path, each in came.items() if not write_of_path(path) or numbers.knows(path)
            }
        added = [numbers.of(path, each) for path, each in came.items()]
        rewritings.append(Rewriting(change[-1].version, ours, tuple(removed), tuple(added)))
        followed = (followed - taken) | came.keys()
    files = tuple(DeltaFile(each, state) for each in numbers.files)
    now = frozenset(number for number, path in enumerate(numbers.paths) if path in state.files)
    return Descent(files, begun, whole, tuple(rewritings), now, suspects)


def _changes(steps: Sequence[_Step]) -> Iterator[tuple[bool, list[_Step]]]:
    """Commits of ours one by one, those of others between them together; and whether they are ours."""
    for ours, group in groupby(steps, lambda step: step.is_ours):
        some = list(group)
        yield from ((True, [step]) for step in some) if ours else [(False, some)]


def _steps(
    table: DeltaLog, lineage: Lineage, line: Sequence[int], live: dict[str, Action]
) -> Iterator[_Step]:
    """What each version of a line but the first has changed; `live` are the files of the first."""
    standing, later = dict(live), set(line[1:])
    commits = {version: actions for version, actions in table.commits() if version in later}
    for before, version in pairwise(line):
        came: dict[str, Action] = {}
        gone: set[str] = set()
        if version == before + 1:  # else it has brought back the one before
            came = {told["path"]: told for action in commits[version] if (told := action.get("add"))}
            gone = {told["path"] for action in commits[version] if (told := action.get("remove"))}
        there = {path: standing[path] for path in sorted(gone - came.keys()) if path in standing}
        step = _Step(version, lineage.infos[version], came, there)
        _apply(step, standing)
        yield step


def _apply(step: _Step, live: dict[str, Action]) -> None:
    for path in step.gone:
        live.pop(path, None)
    live.update(step.came)


def _net(change: Sequence[_Step], live: dict[str, Action]) -> tuple[dict[str, Action], dict[str, Action]]:
    """The files that some steps together take away and bring; `live` is moved on."""
    before = dict(live)
    for step in change:
        _apply(step, live)
    gone = {path: each for path, each in before.items() if path not in live}
    return gone, {path: each for path, each in live.items() if path not in before}


def _owner(path: str) -> str:
    """The write whose rows a file holds; "" if it may hold rows of others."""
    return "" if is_kept(path) else write_of_path(path)


def _has_files_of(files: Collection[str], write_id: str) -> bool:
    return any(_owner(path) == write_id for path in files)


def _candidates(location: str, files: Collection[str], pure: Sequence[str], alone: set[str]) -> list[str]:
    """The files that may hold rows of a write: first those that hold no others, then those that are mixed."""
    known, origins = set(pure), origins_noted(location)
    rest = [path for path in files if path not in known]
    return [*pure, *(path for path in rest if origin_of(origins, _owner(path)) not in alone)]


def _check_no_vectors(sunk: SinkMark, entries: Sequence[Action]) -> None:
    if any(each.get("deletionVector") for each in entries):
        raise PlanError(
            f"{sunk.key} was sunk before, from other rows; rows of its files were deleted by deletion "
            "vectors, so it cannot be told which of its rows are deleted and which are changed. Use mode "
            "overwrite-interval or upsert"
        )


@dataclass
class _NumberedFiles:
    """Files, by the numbers that they get."""

    files: list[Action] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)

    def of(self, path: str, entry: Action) -> int:
        if path not in self._numbers:
            self._numbers[path] = len(self.files)
            self.files.append(entry)
            self.paths.append(path)
        return self._numbers[path]

    def knows(self, path: str) -> bool:
        """Whether a file has one."""
        return path in self._numbers
