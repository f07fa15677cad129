"""Whether what a write brought is part of a version of a Delta table, or was taken back.

A `RESTORE` is a commit that brings an earlier version back: what came between is not part of the table any
more. `txn` actions stay as they are, so that they alone do not tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hipslake.tables.delta.delta_actions import Action, write_in
from hipslake.tables.delta.delta_log import DeltaLog

_RESTORE = "RESTORE"


@dataclass(frozen=True)
class Lineage:
    """The commits that a version descends from, as far as the log has them.

    Attributes
    ----------
    infos : dict of int to dict
        The `commitInfo` of each commit that the log has; empty where there is none.
    made : dict of str to int
        The versions that writes of ours have made, by write id.
    line : frozenset of int
        The versions that the version descends from.
    is_complete : bool
        Whether all that is older than the log is part of the version: no restore has led to before it, or to
        a version that it does not tell.
    """

    infos: dict[int, Action]
    made: dict[str, int]
    line: frozenset[int]
    is_complete: bool

    @classmethod
    def of(cls, table: DeltaLog, version: int) -> Lineage:
        """Follow a version back through the log of its table."""
        infos: dict[int, Action] = {}
        for number, actions in table.commits():
            if number <= version:
                infos[number] = next((each["commitInfo"] for each in actions if each.get("commitInfo")), {})
        made = {write: number for number, info in infos.items() if (write := write_in(info))}
        line: set[int] = set()
        at, complete = version, True
        while at in infos:
            line.add(at)
            if infos[at].get("operation") != _RESTORE:
                at -= 1
                continue
            told = _restored(infos[at])
            if told is None or told >= at or told not in infos:
                complete = told is not None and told == min(infos) - 1
                break
            at = told
        return cls(infos, made, frozenset(line), complete)

    def stands(self, write_id: str) -> bool | None:
        """Whether the commit of a write is part of the version; None if that is not known."""
        if write_id in self.made:
            return self.made[write_id] in self.line or (False if self.is_complete else None)
        return True if self.is_complete else None


def _restored(info: Action) -> int | None:
    """The version that a restore has brought back; None if it does not say."""
    told: Any = (info.get("operationParameters") or {}).get("version")
    try:
        return None if told is None else int(told)
    except (TypeError, ValueError):
        return None
