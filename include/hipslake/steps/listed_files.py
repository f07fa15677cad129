"""The files of a source, as a run lists them, and which of many are looked at first."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hipslake.errors import SourceNotFoundError
from hipslake.sources import open_source
from hipslake.sources.file_listing import rooted
from hipslake.sources.source_file import SourceFile
from hipslake.sources.table_formats import check_plain_files, look_above
from hipslake.specs.environment import expand
from hipslake.specs.source_spec import SourceSpec
from hipslake.storage.small_files import beside

MOST_NAMED = 20
"""Of the names that are passed over, in a report."""

MOST_FILES = 64
"""Whose headers are read where nothing is wrong with them."""

_log = logging.getLogger(__name__)


def list_files(
    source: SourceSpec, given: Sequence[str] = (), *, may_be_empty: bool
) -> tuple[tuple[SourceFile, ...], tuple[str, ...]]:
    """Return the files of a source by URI, and the names of those that match and are not read.

    Parameters
    ----------
    source : SourceSpec
    given : sequence of str
        URIs or globs that are listed in place of the source's own; each has to match a file.
    may_be_empty : bool
        Whether the source's own URI may match none.

    Raises
    ------
    SourceNotFoundError
        If there is no file, unless there may be none.
    """
    try:
        places = [source.model_copy(update={"uri": uri}) for uri in given] or [source]
        folder, _ = rooted(expand(places[0].uri))
        with beside(folder) as begin:
            begun = look_above(begin, folder)
            listings = [open_source(place).listing() for place in places]
    except SourceNotFoundError:
        if may_be_empty and not given:
            return (), ()
        raise
    for listing in listings:
        listing.log_passed_over(_log)
    found = {file.uri: file for listing in listings for file in listing.files}
    check_plain_files(found, begun)
    files = (_at(found[uri], at) for at, uri in enumerate(sorted(found)))
    passed_over = dict.fromkeys(name for listing in listings for name in listing.passed_over)
    return tuple(files), tuple(passed_over)


def _at(file: SourceFile, ordinal: int) -> SourceFile:
    return file if file.ordinal == ordinal else replace(file, ordinal=ordinal)


def spread(files: Sequence[SourceFile], most: int) -> list[SourceFile]:
    """Return so many of the files at most, spread over all of them, the first and the last among them."""
    at = np.unique(np.linspace(0, len(files) - 1, min(len(files), most)).round().astype(int))
    return [files[number] for number in at]
