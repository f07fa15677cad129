"""The files of a stream: where they come, which of them are new, and where it is kept which came before."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace

from pydantic import ValidationError

from hipslake.engine.model import ArrivingFiles
from hipslake.errors import InputError, SourceNotFoundError, SpecError
from hipslake.sources import open_source
from hipslake.sources.file_listing import rooted
from hipslake.sources.source_file import SourceFile
from hipslake.sources.table_formats import check_plain_files
from hipslake.specs.base import Frozen
from hipslake.specs.environment import expand
from hipslake.specs.source_spec import SourceSpec
from hipslake.specs.table_rows import FileRowsSpec
from hipslake.specs.table_spec import TableSpec
from hipslake.storage.folder import Storage

STREAMS = "_streams"
"""Below the warehouse: a folder of each stream."""
CHECKPOINT = "checkpoint"
DRAINED = "drained.json"
_PLAIN_GLOB = re.compile(r"[^\[\]{}\\]*")
_SIGNS = re.compile(r"([*?\[\]{}\\])")


class DrainedListing(Frozen):
    """What a run found that has drained a stream."""

    listing: str  # digest of the files, as they lay there before it began


class ArrivedFiles:
    """The files of a stream that are there: listed when it is asked for, and again for such that came since.

    Parameters
    ----------
    source : SourceSpec
    """

    def __init__(self, source: SourceSpec) -> None:
        self._source = source
        self._root, self._pattern = rooted(expand(source.uri))
        self._found: dict[str, SourceFile] = {}
        self._others: set[str] = set()
        self.passed_over: tuple[str, ...] = ()

    @property
    def are_there(self) -> bool:
        """Whether any was listed."""
        return bool(self._found)

    def listed(self) -> str:
        """List them; return the digest of the list."""
        try:
            listing = open_source(self._source).listing()
        except SourceNotFoundError:
            self._found, self.passed_over = {}, ()
        else:
            unseen = {file.uri for file in listing.files if self._is_unseen(file.uri)}
            self._found = {file.uri: file for file in listing.files if file.uri not in unseen}
            self.passed_over = (*sorted(unseen), *listing.passed_over)
            check_plain_files(self._found)
        told = [[file.uri, file.size, file.stamp] for file in self._found.values()]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()

    def of(self, paths: Sequence[str]) -> tuple[SourceFile, ...]:
        """Those of some paths, sorted, that match the URI of the source.

        Raises
        ------
        InputError
            One is gone.
        """
        known = self._found.keys() | self._others
        if not known.issuperset(paths):
            self.listed()
            self._others.update(set(paths) - self._found.keys())
        found = []
        for path in sorted(set(paths)):
            if path in self._found:
                found.append(self._found[path])
            elif not Storage.of_file(path)[0].is_file(path.rpartition("/")[2]):
                raise InputError(
                    f"{path} came, and was deleted before it was sunk; put it there again, or an empty file "
                    "of its format if its rows are not wanted"
                )
        return tuple(replace(file, ordinal=at) for at, file in enumerate(found))

    def _is_unseen(self, uri: str) -> bool:
        """Whether Spark passes over a file, by its name or that of a folder that it finds by itself."""
        names = uri.removeprefix(self._root.root).lstrip("/").split("/")
        if _is_plain(self._pattern):
            names = names[-1:]
        return any(
            name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")
            for name in names
        )


def stream_folder(warehouse: str, name: str) -> Storage:
    """The folder of a stream, by the name of its spec.

    Raises
    ------
    SpecError
        The warehouse is no local folder, so that Spark cannot keep its checkpoint there.
    """
    folder = Storage.at(warehouse).sub(f"{STREAMS}/{name}")
    if not folder.is_local:
        raise SpecError(
            f"stream: keeps its checkpoint in the warehouse, and Spark as PySpark installs it reaches no "
            f"{folder.root.partition('://')[0]} store; take a warehouse on a disk, or run a query of your "
            "own whose foreachBatch calls hipslake.sink"
        )
    return folder


def arriving_files(spec: TableSpec, warehouse: str) -> ArrivingFiles:
    """What is drained for a spec.

    Raises
    ------
    SpecError
        Files or warehouse lie where Spark does not reach them.
    """
    assert isinstance(spec.source, FileRowsSpec), "a stream is of files"
    assert spec.stream is not None
    root, pattern = rooted(expand(spec.source.files.uri))
    if not root.is_local:
        raise SpecError(
            f"source.files.uri: a stream is of files on disks, since Spark as PySpark installs it reaches no "
            f"{root.root.partition('://')[0]} store; leave 'stream' out, or run a query of your own whose "
            "foreachBatch calls hipslake.sink"
        )
    folder = _SIGNS.sub(r"\\\1", root.root)
    checkpoint = stream_folder(warehouse, spec.name).uri(CHECKPOINT)
    looked_for = f"{folder}/{pattern}" if _is_plain(pattern) else folder
    return ArrivingFiles(spec.name, looked_for, checkpoint, spec.stream.max_files)


def has_new_files(spec: TableSpec, warehouse: str) -> bool:
    """Whether other files are there than when the stream was drained last.

    Parameters
    ----------
    spec : TableSpec
    warehouse : str
        Its root.
    """
    assert isinstance(spec.source, FileRowsSpec), "a stream is of files"
    folder = stream_folder(warehouse, spec.name)
    arrived = ArrivedFiles(spec.source.files)
    listing = arrived.listed()
    try:
        return DrainedListing.model_validate_json(folder.read(DRAINED)).listing != listing
    except (
        FileNotFoundError,
        ValidationError,
    ):  # it was never drained to its end
        return arrived.are_there


def _is_plain(pattern: str) -> bool:
    """Whether a pattern means the same to Hadoop; else all files below the folder are looked at."""
    return "**" not in pattern and _PLAIN_GLOB.fullmatch(pattern) is not None
