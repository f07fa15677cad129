"""Names of files as text that answers can hold."""

from __future__ import annotations


def shown(name: str) -> str:
    r"""A name of the file system as text; other than the name only where that is no UTF-8.

    Examples
    --------
    >>> shown("gaia_dr3"), shown("caf\udce9")
    ('gaia_dr3', 'caf\\xe9')
    """
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")
