"""The log of versions: one immutable metadata file per version. Creating that file is the commit.

`_versions/00000003.json` is version 3. Numbers have no gaps and are never used twice: a vacuumed version
leaves a tombstone. `metadata.json` and other pointers are copies for readers and may be out of date, so
readers look for versions after the one that a pointer names, and every writer updates the pointers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from hipslake.errors import ConflictError, VersionNotFoundError
from hipslake.storage.small_files import together
from hipslake.versions.intents import Outcome, create_version
from hipslake.versions.log_files import (
    POINTER,
    Vacuuming,
    head,
    tombstone,
    version_path,
    write_tombstone_list,
)
from hipslake.versions.log_reader import LOOKS, LogReader, NewestVersion
from hipslake.versions.pointer_files import PointerFiles, standing_pointers


@dataclass(frozen=True)
class RootPointers:
    """The pointers of one version at the catalog's root, besides `metadata.json`."""

    files: Mapping[str, bytes] = field(default_factory=dict)  # path to content; replaced last, in this order
    # on a local disk; in a store, side by side
    links: Mapping[str, str] = field(default_factory=dict)  # path of a symbolic link to its target
    absent: tuple[str, ...] = ()  # paths of files and links that should not stand there; removed last
    at_once: bool = False  # made of the metadata alone: what was just seen of the root is not older than this


class SeenPointers(NamedTuple):
    """The newest version, and what stood at the root: targets of links, contents of files, else None."""

    newest: NewestVersion
    standing: Mapping[str, str | bytes | None]


class VersionLog(LogReader):
    """The versions of one catalog (or cube), and how they come and go; parameters as of `LogReader`."""

    def note_vacuumed(self, vacuumed: Mapping[int, str]) -> None:
        """Store the list of tombstones, so that they need not be read one by one.

        Tombstones that the list lacks, as after two vacuums at once, are read.
        """
        if vacuumed != self._tombstone_list():
            write_tombstone_list(self._storage, vacuumed)

    def commit(
        self,
        number: int,
        data: bytes,
        write_id: str,
        *,
        confirm: Callable[[Callable[[], object]], None] | None = None,
        withdraw: Callable[[str], None] | None = None,
    ) -> Outcome:
        """Create a version, whole or not at all.

        Parameters
        ----------
        number
            One more than the newest version.
        data
            The metadata; its `version` and `write_id` must be the ones given.
        write_id
            By this the writer recognises its own commit if the answer of the store was lost, and finds out
            whether its files were swept.
        confirm
            Makes the last checks of the writer, `check_follows` among them, and beside them what it is given:
            the announcement of the commit. By default that alone follows `check_follows`.
        withdraw
            Takes the path of a file that is to be deleted, soon: the intent of a commit that stands. By
            default it is deleted at once.

        Returns
        -------
        "committed" or "conflict"
            A conflict: another writer has this number. Read the newest version, merge and commit again.

        Raises
        ------
        CommitStateUnknownError
            The store failed, and does not say whether the commit stands. `find` may say so later.
        StorageError
            The commit does not stand: the store refuses, or the write was swept.
        """
        says = head(data, "the metadata to commit")
        if (says.get("version"), says.get("write_id")) != (number, write_id):
            raise ValueError(
                f"the metadata says version {says.get('version')} of write {says.get('write_id')}, "
                f"but version {number} of write {write_id} is to be committed"
            )
        if confirm is None:
            self.check_follows(number)
        return create_version(self._storage, number, data, write_id, confirm=confirm, withdraw=withdraw)

    def check_follows(self, number: int) -> None:
        """Raise `VersionNotFoundError` unless the version before a number stands."""
        if number < 1 or (number > 1 and not self._storage.is_file(version_path(number - 1))):
            raise self._does_not_follow(number)

    def check_follows_write(self, number: int, write_id: str) -> bytes:
        """Check that the version before a number is that of a write; return its metadata, or tombstone.

        Raises
        ------
        VersionNotFoundError
            There is none.
        ConflictError
            It is of another write: the catalog was deleted, and others have made one in its place.
        """
        path = version_path(number - 1)
        try:
            data = self._storage.read(path)
        except FileNotFoundError:
            raise self._does_not_follow(number) from None
        if head(data, self._storage.uri(path)).get("write_id") != write_id:
            raise ConflictError(
                f"{self._storage.uri(path)}: is not the version that this run has read, but one that others "
                "have put in its place"
            )
        return data

    def _does_not_follow(self, number: int) -> VersionNotFoundError:
        return VersionNotFoundError(
            f"{self._storage.uri()}: version {number} cannot be committed before version {number - 1}; "
            f"the next one is {(self.newest() or 0) + 1}"
        )

    def entomb(self, number: int, vacuuming: Vacuuming | None = None) -> None:
        """Replace a version by a tombstone, which keeps its number in use; its data files are not touched.

        Parameters
        ----------
        number
            Of the version.
        vacuuming
            When and by what it is vacuumed, for who asks for it later.

        Raises
        ------
        VersionNotFoundError
            There is no such version, or it is the newest.
        """
        newest = self.newest() or 0
        if not 0 < number < newest:
            raise VersionNotFoundError(
                f"{self._storage.uri()}: version {number} cannot be vacuumed; "
                f"give one before the newest, which is {newest}"
            )
        document = self._head_of(number)
        if not document.get("tombstone"):
            self._storage.write(version_path(number), tombstone(number, document.get("write_id"), vacuuming))

    def publish_pointers(
        self,
        describe: Callable[[bytes], RootPointers] | None = None,
        *,
        watched: Collection[str] = (),
        likely: Collection[str] = (),
        known: int | None = None,
        committed: bytes | None = None,
        seen: SeenPointers | None = None,
        later: Callable[[Callable[[], object]], object] | None = None,
    ) -> int:
        """Make the pointers name the newest version: write them and check again, until they are right.

        That is the newest version whatever the caller committed, so pointers never go back.

        Parameters
        ----------
        describe
            Gives the further pointers of a version from its metadata; by default there are none.
        watched
            Pointers that depend on more than the log. If one of them changes while `describe` runs, it runs
            again, so that a slow run does not restore an old pointer.
        likely
            Further pointers that `describe` most likely gives: a store is asked for them from the first.
        known
            A version that stands, and is most likely the newest: a store is asked for it side by side with
            metadata.json.
        committed
            Its metadata, where the caller has just committed it: that says as much as a look at the log that
            found it the newest, so in a store its pointers are written before the first look.
        seen
            What a first look has found that the caller had just made: `look_at_pointers`.
        later
            Takes what makes sure, in a store, that the pointers which were written are right: the looks that
            follow, and what they find to be mended. By default that is done at once.

        Returns
        -------
        int
            The version that the pointers now name.

        Raises
        ------
        CatalogNotFoundError
            Nothing was ever committed here.
        ConflictError
            Others kept committing in between; they publish the pointers too.
        """
        looked_at = [*dict.fromkeys([*watched, *likely])]
        if committed is not None and not self._storage.is_local:
            pointers = describe(committed) if describe else RootPointers()
            if pointers.at_once and not watched and not pointers.absent:
                contents = {POINTER: committed, **pointers.files}
                together(self._storage, *(partial(self._storage.write, *each) for each in contents.items()))
        for _ in range(LOOKS):
            (newest, data, pointed_at), before = seen or self.look_at_pointers(looked_at, known)
            seen = None
            standing = PointerFiles(self._storage, newest, watched, before)
            try:
                pointers = describe(data) if describe else RootPointers()
            except FileNotFoundError:
                if self.newest() == newest:
                    raise
                continue  # overtaken, and vacuumed, since it was the newest
            copy = {} if pointed_at else {POINTER: data}
            if self._storage.is_local:
                changed = standing.replace(copy)
                for path, target in pointers.links.items():
                    changed |= standing.link(path, target)
                changed |= standing.replace(pointers.files, pointers.absent)
            else:  # which has no links
                now = pointers.at_once
                changed = standing.replace({**copy, **pointers.files}, pointers.absent, seen_now=now)
                looked_at = [*dict.fromkeys([*watched, *pointers.files, *pointers.absent])]
            if not changed:
                return newest
            if later is not None and not self._storage.is_local:
                later(
                    partial(self.publish_pointers, describe, watched=watched, likely=looked_at, known=newest)
                )
                return newest
        raise self.too_fast("pointed at")

    def look_at_pointers(self, paths: Collection[str], known: int | None) -> SeenPointers:
        """What stands at the root, and which version is the newest; parameters as of `publish_pointers`."""
        newest, standing = together(
            self._storage,
            partial(self.committed_newest, known),
            partial(standing_pointers, self._storage, paths),
        )
        return SeenPointers(newest, standing)
