"""A folder of exported files: it appears where nothing was, at once or with a sign that more is to come."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from hipslake.errors import NotWritableError
from hipslake.storage.folder import Storage
from hipslake.storage.plain_json import plain_json

MANIFEST = "_query.json"
"""What the folder holds, and of what it was made; it is written last."""

UNFINISHED = "_unfinished"
"""On object stores: lies in the folder until all files are there."""


class NewFolder:
    """Files that come to lie in a folder of their own, all or none, and never over what others have there.

    On a POSIX file system they are gathered beside it, in a folder whose name begins with a dot, which then
    gets the name. Object stores have no such move: the files are written where they are to lie, with
    `_unfinished` beside them until all are there. A repeated attempt of the same owner starts anew.

    Parameters
    ----------
    uri : str
        Of the folder.
    owner : str
        Id of the writer (the run), unique among writers.
    manifest : str
        The file that says what the folder holds.
    """

    def __init__(self, uri: str, owner: str, *, manifest: str = MANIFEST) -> None:
        self._parent, self._name = Storage.of_file(uri)
        self._owner = owner
        self._manifest = manifest
        digest = hashlib.sha256(owner.encode()).hexdigest()[:8]
        self._staged = self._name
        if self._parent.is_local:
            self._staged = f".{self._name}.{digest}.tmp"  # as a temporary file is called: no listing shows it

    @property
    def files(self) -> Storage:
        """Where files are written."""
        return self._parent.sub(self._staged)

    @property
    def uri(self) -> str:
        """Where they will lie."""
        return self._parent.uri(self._name)

    def check(self) -> None:
        """Raise `NotWritableError` if something lies there, or the place is behind a web server."""
        self._parent.refuse_web_server(self._name)
        if self._parent.exists(self._name) and not self._is_ours():
            raise NotWritableError(f"{self.uri} exists; give the URI of a folder that is not there yet")

    def begin(self) -> Storage:
        """Make room, also of what an earlier attempt has left; return where files are written.

        Raises
        ------
        NotWritableError
            As of `check`.
        """
        self.check()
        if self._staged != self._name:
            self._parent.delete_tree(self._staged)
            return self.files
        # Nothing is deleted before it is certain that no other writer has begun or finished since.
        free = self.files.create(UNFINISHED, self._owner.encode())
        paths = [entry.path for entry in self.files.list(recursive=True) if entry.path != UNFINISHED]
        if free and paths and self._owner_in_manifest() != self._owner:
            self.files.delete(UNFINISHED)
        self.check()
        for path in paths:  # of an earlier attempt
            self.files.delete(path)
        return self.files

    def finish(self, about: dict[str, Any]) -> None:
        """Publish the folder under its final name, with a manifest of its content.

        Raises
        ------
        NotWritableError
            Something was put there meanwhile.
        """
        manifest = json.dumps({"owner": self._owner, **about}, indent=1, default=str) + "\n"
        self.files.write(self._manifest, manifest.encode())
        if self._staged == self._name:
            self.files.delete(UNFINISHED)
            return
        if self._parent.exists(self._name):
            self.check()
            self._parent.delete_tree(self._name)  # of an earlier attempt, since it is ours
        if not self._parent.move_folder(self._staged, self._name):
            raise NotWritableError(f"{self.uri} exists by now; give the URI of a folder that does not")

    def give_up(self) -> None:
        """Remove what was written so far."""
        self._parent.delete_tree(self._staged)

    def _is_ours(self) -> bool:
        if not self._parent.entry(self._name).is_dir:
            return False
        folder = self._parent.sub(self._name)
        if folder.is_file(self._manifest):
            return self._owner_in_manifest() == self._owner
        return folder.is_file(UNFINISHED) and folder.read(UNFINISHED) == self._owner.encode()

    def _owner_in_manifest(self) -> object:
        """The owner that the manifest names; None if it names none."""
        try:
            manifest = plain_json(self._parent.sub(self._name).read(self._manifest))
        except (FileNotFoundError, ValueError):
            return None
        return manifest.get("owner") if isinstance(manifest, dict) else None
