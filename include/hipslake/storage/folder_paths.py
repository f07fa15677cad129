"""Where the paths of a folder lie: its root, a local path or a URI, and folders that are mounted in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from hipslake.errors import PathError
from hipslake.storage.access import check_protocol, refuse_secret
from hipslake.storage.addresses import is_same_address


@dataclass(frozen=True)
class FolderPaths:
    """A folder, and the places of paths below it.

    Paths are relative to it and separated by `/`; `""` is the folder. A path that leads out of it is a
    `PathError`, and so a `ValueError`.

    Folders elsewhere may be mounted: paths below a mount are those of the other folder.
    """

    root: str
    mounts: tuple[tuple[str, str], ...] = ()  # paths, and the roots that lie there

    @classmethod
    def at(cls, uri: str | Path) -> Self:
        """The storage rooted at a local path or a URI (`file://`, `s3://`, `memory://`, `https://`).

        Raises
        ------
        PathError
            It holds what is no character, or a secret, or has a scheme of no store.
        """
        _check_characters(str(uri))
        refuse_secret(str(uri))
        protocol, path = _scheme_and_path(str(uri))
        if protocol is None and "://" in path:  # one letter is a drive to fsspec
            raise PathError(f"{path!r} names no store; give a path, or a URI such as s3://bucket/folder")
        if protocol in (None, "file", "local"):
            try:
                return cls(str(Path(path).expanduser().absolute()))
            except RuntimeError as error:  # ~ of an unknown user
                raise PathError(f"{str(uri)!r}: {error}; write the path out") from None
        check_protocol(protocol, str(uri))
        return cls(f"{protocol}://{path.rstrip('/')}")

    @classmethod
    def of_file(cls, uri: str | Path) -> tuple[Self, str]:
        """The storage at the folder of a file, and the file's name in it; `PathError` for a URI of none."""
        text = str(uri)
        refuse_secret(text)
        path = text.removeprefix("file://") if text.startswith("file:///") else text
        folder, _, name = path.rpartition("/")
        if name in ("", ".", "..") or folder.endswith(":/"):  # nothing, a folder, a bucket
            raise PathError(f"{text!r} is no file; give its path or URI")
        return cls.at(folder or ("/" if path.startswith("/") else ".")), name

    @property
    def is_local(self) -> bool:
        """Whether the files lie on a file system of this machine."""
        return "://" not in self.root

    @property
    def is_web_server(self) -> bool:
        """Whether the files lie behind a web server, which lists nothing and takes nothing."""
        return self.root.startswith(("http://", "https://"))

    def is_same_place(self, other: FolderPaths) -> bool:
        """Whether both are one folder, however their addresses are written: `hipslake.storage.addresses`."""
        return is_same_address(self.root, other.root)

    def uri(self, path: str = "") -> str:
        """The absolute path or URI of a path; `Storage.at` takes it back."""
        _check_characters(path)
        parts = [
            part for part in path.split("/") if part not in ("", ".")
        ]  # as pathlib, at a tenth of its cost
        if path.startswith("/") or ".." in parts:
            raise PathError(f"{path!r} leads out of {self.root}; give a path below it")
        if not parts:
            return self.root
        return _below(*self._rooted("/".join(parts)))

    def mounting(self, mounts: tuple[tuple[str, str], ...]) -> Self:
        """The same folder with others mounted in it: paths, and the root of each as `Storage.at` takes it."""
        return replace(self, mounts=mounts) if mounts or self.mounts else self

    def resolved(self, path: str) -> tuple[Self, str]:
        """The storage that a path lies in, and its path there: another one where it lies below a mount."""
        self.uri(path)  # refuses what leads out
        joined = "/".join(part for part in path.split("/") if part not in ("", "."))
        root, rest = self._rooted(joined)
        return (self, path) if rest == joined else (self.at(root), rest)

    def _rooted(self, path: str) -> tuple[str, str]:
        """The root that a path lies below, a mount's or the storage's own, and the path from there."""
        for mount, root in self.mounts:
            if path == mount or path.startswith(f"{mount}/"):
                return root, path[len(mount) + 1 :]
        return self.root, path

    @staticmethod
    def join(*parts: str) -> str:
        """Join path parts with `/`; empty parts vanish."""
        return "/".join(part.strip("/") for part in parts if part)

    def sub(self, path: str) -> Self:
        """The storage rooted at a folder of this one."""
        return type(self)(self.uri(path))  # below a mount, in the folder that lies there


def _below(root: str, path: str) -> str:
    return root + ("" if root.endswith("/") or not path else "/") + path


def _scheme_and_path(uri: str) -> tuple[str | None, str]:
    """Cut a URI as fsspec does: one letter is a drive, and `data:` has no slashes."""
    scheme, separator, path = uri.partition("://")
    if separator and len(scheme) > 1:
        return scheme, path
    if uri.startswith("data:"):
        return "data", uri.removeprefix("data:")
    return None, uri


def _check_characters(path: str) -> None:
    if "\0" in path:
        raise PathError(f"{path!r} has a zero character, which no name has")
    try:
        path.encode(errors="surrogateescape")  # which stand for the bytes of names that are no UTF-8
    except UnicodeEncodeError as error:
        raise PathError(f"{path!r} holds half a character at {error.start}, which no name has") from None
