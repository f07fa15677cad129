"""Marks of what was sunk into a Delta table: a `txn` action in the log, and a file that it stands for.

Of an application (`txn`'s `appId`) the log keeps a number, and nothing else. Ours are the keys of sinks, and
the number names a file below `_writes/_sunk/`, which is written before the commit and never changed. So what
was sunk is part of the very commit that brought the rows, and two runs of one key cannot both commit.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import cached_property

from pydantic import ValidationError

from hipslake.errors import PlanError
from hipslake.storage.folder import Storage
from hipslake.tables.delta.delta_files import write_of_path
from hipslake.tables.delta.delta_lineage import Lineage
from hipslake.tables.delta.delta_log import DeltaLog, LogState
from hipslake.tables.delta.delta_writes import writes_below
from hipslake.tables.marks import SinkMark

APPLICATION = "hipslake:"
"""What the application ids of sinks begin with; the key of the sink follows."""

_SUNK = "_sunk"


class DeltaMarks:
    """The marks of the sinks whose rows a version of a table has.

    Parameters
    ----------
    table : DeltaLog
    state : LogState
        The version.
    """

    def __init__(self, table: DeltaLog, state: LogState) -> None:
        self._table = table
        self._state = state

    @property
    def keys(self) -> list[str]:
        """The keys of all sinks that have a mark."""
        found = self._state.transactions
        return sorted(name.removeprefix(APPLICATION) for name in found if name.startswith(APPLICATION))

    def of(self, key: str) -> SinkMark | None:
        """The mark of the sink of a key that is part of the version; None if there is none, or it is not
        known.

        Raises
        ------
        PlanError
            The file of the mark is damaged.
        """
        mark = self._newest(key)
        while mark is not None and not self._stands(mark.write):
            mark = self._replaced_by(mark)
        return mark

    def may_stand(self, key: str) -> bool:
        """Whether some sink of a key may stand of which no more is known, as `of` gives none."""
        if self.number(key) is None or self.of(key) is not None:
            return False
        mark = self._newest(key)
        if mark is None:
            return True  # its file is gone
        while mark is not None:
            if self._lineage.stands(mark.write) is None:
                return True
            before = self._replaced_by(mark)
            if before is None and mark.replaced is not None:
                return True
            mark = before
        return False

    def was_sunk_earlier(self, key: str, start: datetime | None) -> bool:
        """Whether there was a sink of a key that is too old to be kept by itself: all are kept."""
        return False

    def forgotten_by(self, key: str) -> str:
        """A `txn` cannot be taken out of a log."""
        return ""

    def number(self, key: str) -> int | None:
        """The number that a key has reached; None if it was never sunk."""
        told = self._state.transactions.get(APPLICATION + key)
        return None if told is None else int(told["version"])

    def version_of(self, write_id: str) -> int | None:
        """The version that a write has made; None if the log does not have it any more."""
        return self._lineage.made.get(write_id)

    def kept(self, mark: SinkMark) -> int:
        """Store the mark of a sink to come; return the number that its commit has to set."""
        number = (self.number(mark.key) or 0) + 1
        data = mark.model_dump_json(exclude_defaults=True).encode()
        while not _folder(self._table.location, mark.key).create(_name(number), data):
            number += 1  # of a run that did not commit
        return number

    @cached_property
    def writes_alone(self) -> set[str]:
        """The writes of sinks whose files hold the rows of that write only."""
        return {mark.write for key in self.keys if (mark := self.of(key)) is not None and mark.alone}

    def _newest(self, key: str) -> SinkMark | None:
        number = self.number(key)
        return None if number is None else self._read(key, number)

    def _replaced_by(self, mark: SinkMark) -> SinkMark | None:
        """The mark of the sink that one has replaced, with what that one had replaced before."""
        if mark.replaced is None:
            return None
        for entry in _folder(self._table.location, mark.key).list():
            number = entry.path.partition(".")[0]
            found = self._read(mark.key, int(number)) if number.isdigit() else None
            if found is not None and found.write == mark.replaced.write:
                return found
        return None

    def _read(self, key: str, number: int) -> SinkMark | None:
        folder = _folder(self._table.location, key)
        try:
            return SinkMark.model_validate_json(folder.read(_name(number)))
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise PlanError(
                f"{folder.uri(_name(number))} does not say what was sunk ({error}); remove it, and replace "
                f"{key} once in mode overwrite-interval"
            ) from None

    def _stands(self, write_id: str) -> bool:
        """Whether the commit of a write is known to be part of the version."""
        return write_id in self._live_writes or self._lineage.stands(write_id) is True

    @cached_property
    def _live_writes(self) -> set[str]:
        """Writes with a live file: those need no look into the log."""
        return {write_of_path(path) for path in self._state.files} - {""}

    @cached_property
    def _lineage(self) -> Lineage:
        return Lineage.of(self._table, self._state.version)


def _folder(location: str, key: str) -> Storage:
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    return writes_below(location).sub(f"{_SUNK}/{digest}")


def _name(number: int) -> str:
    return f"{number:020d}.json"
