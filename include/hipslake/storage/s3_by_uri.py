"""What readers of ranges need of a file system of fsspec, for S3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hipslake.storage.s3_files import S3Files


class ByUri:
    """The part of a file system of fsspec that readers need, for S3; the rest is fsspec's client.

    Parameters
    ----------
    files : S3Files
    """

    protocol = "s3"

    def __init__(self, files: S3Files) -> None:
        self._files = files

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._files.by_fsspec.client, name)

    def unstrip_protocol(self, path: str) -> str:
        """The URI of a path that begins with the bucket."""
        return path if "://" in path else f"s3://{path}"

    def info(self, path: str) -> dict[str, Any]:
        """The size and the kind of what lies at a path."""
        entry = self._files.entry(self.unstrip_protocol(path), path)
        return {"name": path, "type": "directory" if entry.is_dir else "file", "size": entry.size}

    def cat_file(self, path: str, start: int, end: int) -> Any:
        """A range of an object, in the memory where it arrived."""
        return self._files.range_buffer(self.unstrip_protocol(path), start, end)
