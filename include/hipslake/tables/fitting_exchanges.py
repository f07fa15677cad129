"""The commit of exchanges of files of which others may have changed some: those are left out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from hipslake.errors import ConflictError
from hipslake.tables.compaction_protocol import CommittedExchanges, FileExchange

log = logging.getLogger(__name__)


def commit_fitting(
    table: str,
    exchanges: Sequence[FileExchange],
    commit: Callable[[Sequence[FileExchange]], str],
    misfits: Callable[[Sequence[int]], dict[int, str]],
) -> CommittedExchanges:
    """Commit exchanges in one version, without those whose files others have changed meanwhile.

    Parameters
    ----------
    table : str
        Its name, for messages.
    exchanges : sequence of FileExchange
    commit : callable
        Commits all of some exchanges, or none, and gives the version.
    misfits : callable
        Of some places in `exchanges`, those whose files others have changed, and what was changed; asked
        after a commit that met a conflict.

    Raises
    ------
    ConflictError
        That of the commit, where none of the exchanges that were tried fits, or where all of them still do.
    """
    standing = list(range(len(exchanges)))
    refused: dict[int, str] = {}
    while True:
        try:
            version = commit([exchanges[at] for at in standing])
        except ConflictError:
            # Nothing was committed. What others have changed is left out, and the rest tried again.
            found = misfits(standing)
            if not found or len(found) == len(standing):
                raise
            refused |= found
            standing = [at for at in standing if at not in found]
            log.warning(
                "Table %s: %d groups are left out, as others have changed their files: %s.",
                table,
                len(found),
                next(iter(found.values())),
            )
        else:
            return CommittedExchanges(version, refused)
