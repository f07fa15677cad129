"""The log of a Delta table: commits as JSON, checkpoints as Parquet; what they add up to is a version.

Written by Delta's published protocol. The log is read here, and not by delta-rs, since a change is right only
for the very version that it was checked against: see "Delta tables" in docs/architecture.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from hipslake.errors import CorruptFileError, PlanError, VersionNotFoundError
from hipslake.storage.folder import Storage
from hipslake.tables.delta.delta_actions import OURS, Action, file_identity, parsed, write_in
from hipslake.tables.delta.delta_types import schema_of
from hipslake.tables.stored_files import opened_parquet

LOG = "_delta_log"
LAST_CHECKPOINT = f"{LOG}/_last_checkpoint"

_COMMIT = re.compile(rf"{LOG}/(\d{{20}})\.json")
_CHECKPOINT = re.compile(rf"{LOG}/(\d{{20}})\.checkpoint(?:\.(\d{{10}})\.(\d{{10}}))?\.parquet")
_NEWER_CHECKPOINT = re.compile(rf"{LOG}/(\d{{20}})\.checkpoint\.[0-9a-fA-F-]{{36}}\.(?:json|parquet)")


def commit_path(version: int) -> str:
    """The file of a commit, below the table's location."""
    return f"{LOG}/{version:020d}.json"


@dataclass(frozen=True)
class LogState:
    """A version of a table: what its log up to there adds up to.

    Attributes
    ----------
    location : str
        Of the table.
    version : int
    protocol, metadata : dict
        The newest such action.
    files : dict of str to dict
        The `add` of each live file, by its path as the log has it.
    removed : dict of str to dict
        The `remove` of files that are live no more, or have other deletion vectors by now, as far as the log
        still has them; by path and vector.
    transactions : dict of str to dict
        The `txn` of each application.
    domains : dict of str to dict
        The `domainMetadata` of each domain.
    infos : dict of int to dict
        The `commitInfo` of the commits that were read one by one, and of the version itself, by version; of
        those that have one.
    """

    location: str
    version: int
    protocol: Action
    metadata: Action
    files: dict[str, Action]
    removed: dict[str, Action]
    transactions: dict[str, Action]
    domains: dict[str, Action]
    infos: dict[int, Action]

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns, those that it is partitioned by included."""
        return schema_of(self.metadata["schemaString"], self.location)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns that have one value per file."""
        return tuple(self.metadata.get("partitionColumns") or ())

    @property
    def configuration(self) -> Mapping[str, str]:
        """The properties of the table."""
        return self.metadata.get("configuration") or {}

    @property
    def told(self) -> Mapping[str, str]:
        """What the commit of ours that made it says of itself; empty if there is none, or it is gone."""
        found = self.infos.get(self.version, {}).get(OURS)
        return found if isinstance(found, dict) else {}

    def version_of(self, write_id: str) -> int | None:
        """The version that a write of ours made, if it is among `infos`."""
        return next((at for at, info in self.infos.items() if write_in(info) == write_id), None)


@dataclass
class _Replay:
    """Applies actions one after the other."""

    protocol: Action | None = None
    metadata: Action | None = None
    files: dict[str, Action] = field(default_factory=dict)
    removed: dict[str, Action] = field(default_factory=dict)
    transactions: dict[str, Action] = field(default_factory=dict)
    domains: dict[str, Action] = field(default_factory=dict)
    infos: dict[int, Action] = field(default_factory=dict)

    @classmethod
    def on(cls, state: LogState) -> _Replay:
        return cls(
            state.protocol,
            state.metadata,
            dict(state.files),
            dict(state.removed),
            dict(state.transactions),
            dict(state.domains),
            dict(state.infos),
        )

    def apply(self, version: int, actions: Iterable[Action]) -> None:
        for action in actions:
            for kind, told in action.items():
                if told is None:
                    continue
                if kind == "add":
                    self.removed.pop(file_identity(told), None)
                    self.files[told["path"]] = told
                elif kind == "remove":
                    # A file that gets a deletion vector is added under its path by the same commit.
                    standing = self.files.get(told["path"])
                    if standing is not None and file_identity(standing) == file_identity(told):
                        del self.files[told["path"]]
                    self.removed[file_identity(told)] = told
                elif kind == "metaData":
                    self.metadata = told
                elif kind == "protocol":
                    self.protocol = told
                elif kind == "txn":
                    self.transactions[told["appId"]] = told
                elif kind == "domainMetadata":
                    self.domains[told["domain"]] = told
                elif kind == "commitInfo":
                    self.infos[version] = told

    def state(self, location: str, version: int) -> LogState:
        if self.protocol is None or self.metadata is None:
            raise CorruptFileError(
                f"{location}/{LOG}: nothing up to version {version} says what the table is; restore the log"
            )
        return LogState(
            location,
            version,
            self.protocol,
            self.metadata,
            self.files,
            self.removed,
            self.transactions,
            self.domains,
            self.infos,
        )


class DeltaLog:
    """The log of a table.

    Parameters
    ----------
    location : str
        Of the table.
    """

    def __init__(self, location: str) -> None:
        self.location = location.rstrip("/")
        self.storage = Storage.at(self.location)
        self._known: LogState | None = None

    def newest(self) -> LogState | None:
        """The newest version; None if there is no table.

        Raises
        ------
        CorruptFileError
            A file of the log is damaged, or missing.
        PlanError
            The table has checkpoints of a kind that is not read.
        """
        known = self._known
        if known is None:
            listed = self._listed()
            if not listed.versions:
                return None
            self._known = self._read(listed, max(listed.versions))
            return self._known
        replay, version = _Replay.on(known), known.version
        while (actions := self._commit(version + 1)) is not None:
            version += 1
            replay.apply(version, actions)
        if version > known.version:
            self._known = replay.state(self.location, version)
        elif not self.storage.is_file(commit_path(version)):  # the log was cut behind it meanwhile
            self._known = None
            return self.newest()
        return self._known

    def at(self, version: int) -> LogState:
        """An earlier version; raises `VersionNotFoundError` if the log does not reach back to it."""
        listed = self._listed()
        if version not in listed.readable:
            raise VersionNotFoundError(
                f"table {self.location} has no version {version}; its log has been cleaned up, or never had "
                "one. Take a newer one"
            )
        return self._read(listed, version)

    def versions(self) -> list[int]:
        """The versions that can be read, ascending."""
        return sorted(self._listed().readable)

    def commits(self) -> Iterator[tuple[int, list[Action]]]:
        """The commits that the log still has, ascending."""
        for version in sorted(self._listed().commits):
            if (actions := self._commit(version)) is not None:
                yield version, actions

    def is_taken(self, version: int) -> bool:
        """Whether a version has this number, or a greater one."""
        return self.storage.is_file(commit_path(version)) or any(
            number >= version for number in self._listed().versions
        )

    def files_of_log(self) -> dict[int, list[str]]:
        """The paths of the commits and checkpoints, by version."""
        found: dict[int, list[str]] = {}
        for entry in self.storage.list(LOG):
            for form in (_COMMIT, _CHECKPOINT, _NEWER_CHECKPOINT):
                if match := form.fullmatch(entry.path):
                    found.setdefault(int(match[1]), []).append(entry.path)
        return found

    def checkpoints(self) -> list[int]:
        """The versions that have a checkpoint which is whole, ascending."""
        return sorted(self._listed().checkpoints)

    def _listed(self) -> _Listed:
        commits: set[int] = set()
        parts: dict[int, dict[int, list[str]]] = {}
        newer: set[int] = set()
        for entry in self.storage.list(LOG):
            if match := _COMMIT.fullmatch(entry.path):
                commits.add(int(match[1]))
            elif match := _CHECKPOINT.fullmatch(entry.path):
                total = int(match[3]) if match[3] else 0
                parts.setdefault(int(match[1]), {}).setdefault(total, []).append(entry.path)
            elif match := _NEWER_CHECKPOINT.fullmatch(entry.path):
                newer.add(int(match[1]))
        whole = {
            version: sorted(paths)
            for version, some in parts.items()
            for total, paths in sorted(some.items(), reverse=True)
            if len(paths) == max(total, 1)
        }
        return _Listed(commits, whole, newer)

    def _commit(self, version: int) -> list[Action] | None:
        path = commit_path(version)
        try:
            data = self.storage.read(path)
        except FileNotFoundError:
            return None
        return parsed(data, self.storage.uri(path))

    def _info(self, version: int) -> Action | None:
        """The `commitInfo` of a commit, which its checkpoint does not have; None if it is gone."""
        actions = self._commit(version) or []
        return next((told for each in actions if (told := each.get("commitInfo"))), None)

    def _read(self, listed: _Listed, version: int) -> LogState:
        base = max((number for number in listed.checkpoints if number <= version), default=None)
        first = 0 if base is None else base + 1
        missing = sorted(set(range(first, version + 1)) - listed.commits)
        if missing:
            if listed.newer:
                raise PlanError(
                    f"table {self.location} has checkpoints of the newer kind (v2Checkpoint), which this "
                    "library does not read; have the engine that wrote them take classic ones "
                    "(delta.checkpointPolicy)"
                )
            raise CorruptFileError(
                f"{self.storage.uri(commit_path(missing[0]))} is missing, and no checkpoint stands in for "
                "it; restore it"
            )
        replay = _Replay()
        if base is not None:
            for path in listed.checkpoints[base]:
                replay.apply(base, self._checkpoint(path))
            if (info := self._info(base)) is not None:
                replay.infos[base] = info
        for number in range(first, version + 1):
            actions = self._commit(number)
            if actions is None:
                raise CorruptFileError(
                    f"{self.storage.uri(commit_path(number))} went while it was read; try again"
                )
            replay.apply(number, actions)
        return replay.state(self.location, version)

    def _checkpoint(self, path: str) -> Iterator[Action]:
        where = self.storage.uri(path)
        gone = CorruptFileError(f"{where} went while it was read; try again")
        with opened_parquet(where, gone=gone) as (_, parquet):
            there = set(parquet.schema_arrow.names)
            columns = [name for name in _OF_CHECKPOINT if name.partition(".")[0] in there]
            for batch in parquet.iter_batches(columns=columns):
                for row in batch.to_pylist(maps_as_pydicts="lossy"):
                    yield {kind: _without_nulls(told) for kind, told in row.items() if told is not None}


_OF_CHECKPOINT = (
    *("protocol", "metaData", "txn", "domainMetadata", "remove"),
    *("add.path", "add.partitionValues", "add.size", "add.modificationTime", "add.dataChange", "add.stats"),
    *(
        "add.tags",
        "add.deletionVector",
        "add.baseRowId",
        "add.defaultRowCommitVersion",
        "add.clusteringProvider",
    ),
)


def _without_nulls(told: Action) -> Action:
    """An action as its JSON would have it: keys without a value are left out, but for partition values."""
    found = {key: value for key, value in told.items() if value is not None}
    if vector := found.get("deletionVector"):
        found["deletionVector"] = {key: value for key, value in vector.items() if value is not None}
    return found


@dataclass(frozen=True)
class _Listed:
    """What lies in the folder of a log."""

    commits: set[int]
    checkpoints: dict[int, list[str]]
    newer: set[int]

    @property
    def versions(self) -> set[int]:
        return self.commits | self.checkpoints.keys()

    @property
    def readable(self) -> set[int]:
        """The versions of which every commit is there since a checkpoint, or since the first."""
        found = set(self.checkpoints)
        for version in sorted(self.commits):
            if version == 0 or version - 1 in found:
                found.add(version)
        return found
