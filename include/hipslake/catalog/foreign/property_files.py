"""What the property files of HATS and HiPSCat trees say, whatever version of the format they are of.

`hats.properties`, its older name `properties` and `collection.properties` are Java properties; HiPSCat's
`catalog_info.json` said the same under other names. All are given under the keys of the IVOA Note "HATS:
Hierarchical Adaptive Tiling Scheme".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from hipslake.errors import CatalogFormatError
from hipslake.storage.plain_json import plain_json

COLLECTION_FILE = "collection.properties"
HIPSCAT_FILE = "catalog_info.json"
PROPERTY_FILES = ("hats.properties", "properties", HIPSCAT_FILE)
"""Of a tree, the newest name first."""

MOST_BYTES = 1 << 20
"""Of a property file; a larger one is none."""

_OF_HIPSCAT = {
    "catalog_name": "obs_collection",
    "catalog_type": "dataproduct_type",
    "total_rows": "hats_nrows",
    "ra_column": "hats_col_ra",
    "dec_column": "hats_col_dec",
    "primary_catalog": "hats_primary_table_url",
    "margin_threshold": "hats_margin_threshold",
    "indexing_column": "hats_index_column",
    "primary_column": "hats_col_assn_primary",
    "primary_column_association": "hats_col_assn_primary_assn",
    "join_catalog": "hats_assn_join_table_url",
    "join_column": "hats_col_assn_join",
    "join_column_association": "hats_col_assn_join_assn",
    "contains_leaf_files": "hats_assn_leaf_files",
}
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY = re.compile(r"((?:\\.|[^\s=:\\])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)


def read_properties(data: bytes, where: str) -> dict[str, str]:
    """What a property file says, under the keys of HATS; keys without a value are left out.

    Parameters
    ----------
    data : bytes
    where : str
        The address of the file, whose name tells its format; for errors.

    Raises
    ------
    CatalogFormatError
        The file is damaged.
    """
    if len(data) > MOST_BYTES:
        raise CatalogFormatError(f"{where}: {len(data)} bytes are no file of properties")
    found = _of_json(data, where) if where.endswith(HIPSCAT_FILE) else _of_java(data, where)
    return {key: value for key, value in found.items() if value != ""}


def _of_json(data: bytes, where: str) -> dict[str, str]:
    try:
        said = plain_json(data)
    except ValueError as error:
        raise CatalogFormatError(f"{where}: not JSON ({error}); restore the file") from None
    if not isinstance(said, dict) or "catalog_name" not in said:
        raise CatalogFormatError(f"{where}: does not describe a catalog of HiPSCat; restore the file")
    texts = {key: _text(value) for key, value in said.items()}
    return {_OF_HIPSCAT.get(key, key): text for key, text in texts.items()}


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _of_java(data: bytes, where: str) -> dict[str, str]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")  # the encoding of Java before UTF-8
    if "\0" in text:
        raise CatalogFormatError(f"{where}: not text; restore the file")
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _KEY.fullmatch(line)
        if match is not None:
            found[_unescaped(match[1])] = _unescaped(match[2]).strip()
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments; one that ends in an odd number of backslashes goes on in the next."""
    begun = ""
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(" \t\f")
        if not begun and (not line or line[0] in "#!"):
            continue
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            begun += line[:-1]
            continue
        yield begun + line
        begun = ""
    if begun:
        yield begun


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    found = _ESCAPE.sub(
        lambda match: chr(int(match[1][1:], 16)) if len(match[1]) == 5 else _ESCAPED.get(match[1], match[1]),
        text,
    )
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # pairs of \u escapes


def number_in(properties: Mapping[str, str], key: str, where: str) -> int | None:
    """A whole number of at least 0 among properties; None if they do not say it.

    Raises
    ------
    CatalogFormatError
        It is something else.
    """
    text = properties.get(key)
    if text is None:
        return None
    try:
        number = int(float(text)) if not text.isdigit() else int(text)
    except (ValueError, OverflowError):
        number = -1
    if not 0 <= number < 1 << 63:
        raise CatalogFormatError(f"{where}: {key} is {text!r}, not a number of rows or the like")
    return number


def names_in(text: str) -> list[str]:
    """The names of a list, which spaces, commas, semicolons or line ends part.

    Examples
    --------
    >>> names_in("one, two;three")
    ['one', 'two', 'three']
    """
    return [name for name in re.split(r"[\s,;]+", text) if name]
