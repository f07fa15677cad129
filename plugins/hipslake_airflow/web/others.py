"""Catalogs of others that a deployment names by their URIs: they are read where they lie."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import NamedTuple

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.foreign.foreign_metadata import VERSION, ForeignMetadata
from hipslake.errors import HipslakeError, SpecError, VersionNotFoundError
from hipslake.specs.environment import expand
from hipslake.storage.access import refuse_secret
from hipslake.storage.timeouts import Deadline, deadline, within

from hipslake_airflow.web.cache import SizedCache
from hipslake_airflow.web.parameters import MOST_OF_A_NAME, NAME_PATTERN

OTHERS = "HIPSLAKE_OTHERS"
"""The variable that names them: `name=URI`, with blanks between."""

LOOKED_AT = 60.0
"""Seconds after which a catalog is opened anew, to see whether it has changed."""

_OPENED = 1 << 20  # bytes that an opened one takes, about
_SHARE = 0.4  # of the time that is left, for one of a list: the others are shown all the same


class OpenedCatalog(NamedTuple):
    """A catalog of others, and when it was looked at."""

    reader: CatalogReader
    metadata: ForeignMetadata
    looked_at: datetime


def named_others(text: str) -> tuple[dict[str, str], str | None]:
    """The URIs of catalogs of others by name, and what is wrong with the other entries of a text.

    Messages repeat no URI: it may hold a secret.

    Examples
    --------
    >>> named_others("gaia=https://data.lsdb.io/hats/gaia_dr3 ztf=s3://ztf/objects")[0]["ztf"]
    's3://ztf/objects'
    >>> named_others("gaia")[1]
    'HIPSLAKE_OTHERS: entry 1 is not name=URI; write gaia=https://..., with blanks between entries'
    """
    found: dict[str, str] = {}
    wrong = []
    for number, entry in enumerate(text.split(), 1):
        name, _, uri = entry.partition("=")
        if not uri:
            wrong.append(
                f"entry {number} is not name=URI; write gaia=https://..., with blanks between entries"
            )
        elif not re.match(NAME_PATTERN, name) or len(name) > MOST_OF_A_NAME:
            wrong.append(f"the name of entry {number} is none; take letters, digits, _ and -")
        elif name in found:
            wrong.append(f"{name} stands twice; give each catalog a name of its own")
        else:
            found[name] = uri
    return found, f"{OTHERS}: {'; '.join(wrong)}" if wrong else None


class OtherCatalogs:
    """The catalogs of others of a deployment; each is opened when it is asked for, and again after a while.

    Parameters
    ----------
    text : str
        As `HIPSLAKE_OTHERS` has it.
    cache : SizedCache
        Of the page.

    Attributes
    ----------
    uris : dict of str to str
        As they are given, by name.
    problem : str or None
        What is wrong with entries that are left out.
    """

    def __init__(self, text: str, cache: SizedCache) -> None:
        self.uris, self.problem = named_others(text)
        self._cache = cache
        self._last: dict[str, OpenedCatalog] = {}
        self._failed: dict[str, tuple[HipslakeError, float]] = {}

    def opened(self, name: str, version: int | None = None) -> OpenedCatalog:
        """A catalog as it is now, or was less than `LOOKED_AT` seconds ago.

        Raises
        ------
        CatalogNotFoundError, CatalogFormatError
            There is none, or what describes it is damaged.
        VersionNotFoundError
            Another version than 1 is asked for: others keep none.
        SpecError
            It is a catalog of ours, or has no rows on the sky.
        """
        if version not in (None, VERSION):
            raise VersionNotFoundError(
                f"catalog {name}: version {version} does not exist: others keep no versions; ask for none"
            )
        key = ("of others", name, int(time.monotonic() // LOOKED_AT))
        return self._cache.get(key, lambda: self._open(name), lambda _: _OPENED)

    def listed(self, name: str) -> OpenedCatalog:
        """As `opened`, for a list of many: it waits only for a part of the time that there is.

        What failed is not tried again for `LOOKED_AT` seconds.
        """
        if name in self._failed:
            error, at = self._failed[name]
            if time.monotonic() - at < LOOKED_AT:
                raise error.with_traceback(None)
        end = deadline()
        part = min(_SHARE * end.left(), LOOKED_AT)
        try:
            with within(Deadline(time.monotonic() + part, part, end.setting)):
                found = self.opened(name)
                found.metadata.total_bytes  # noqa: B018 - what the list shows is asked for here, too
                found.metadata.total_rows  # noqa: B018
        except HipslakeError as error:
            self._failed[name] = error, time.monotonic()
            raise
        self._failed.pop(name, None)
        return found

    def _open(self, name: str) -> OpenedCatalog:
        uri = self.uris[name]
        refuse_secret(uri)
        reader = CatalogReader.open(expand(uri))
        metadata = reader.metadata
        if not isinstance(metadata, ForeignMetadata):
            raise SpecError(
                f"{OTHERS}: {name} is a catalog of hipslake, whose versions its own page shows; "
                "name its HATS tree below `current`"
            )
        if not metadata.is_placed:
            raise SpecError(
                f"{OTHERS}: {name} (of kind {metadata.tree.kind}) has no rows that lie on the sky where its "
                "leaves do, or names no columns of positions; name the catalog that it is of"
            )
        before = self._last.get(name)
        if before is not None and before.metadata.write_id == metadata.write_id:  # its leaves are known
            reader, metadata = before.reader, before.metadata
        found = OpenedCatalog(reader, metadata, datetime.now(UTC).replace(microsecond=0))
        self._last[name] = found
        return found
