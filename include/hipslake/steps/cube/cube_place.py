"""The root of the cube of a step: a cube of the warehouse is given by its name, any other by its URI."""

from __future__ import annotations

import re

from hipslake.cube.store.layout import CUBES, cube_uri
from hipslake.errors import NotWritableError, SpecError
from hipslake.specs.base import NAME_PATTERN
from hipslake.steps.export.outputs import OUTPUTS, check_allowed, is_listed, refuse_published
from hipslake.storage.addresses import is_below, normal_address
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog
from hipslake.versions.write_id import is_write_id


def cube_root(warehouse: str, given: str) -> Storage:
    """The storage at the root of a cube.

    Parameters
    ----------
    warehouse : str
        Its URI.
    given : str
        As a user has given it: a name, or a URI.

    Raises
    ------
    SpecError
        It is neither.
    """
    text = given.strip()
    if re.fullmatch(NAME_PATTERN, text):
        return Storage.at(cube_uri(warehouse, text))
    if "://" in text or text.startswith(("/", "~")):
        return Storage.at(normal_address(Storage.at(text).uri()))
    raise SpecError(
        f"cube {given!r} is neither the name of a cube of the warehouse (lower-case letters, digits and _) "
        "nor the URI of one; give either"
    )


def name_of(root: Storage) -> str:
    """The last part of a cube's root: in a warehouse, its name."""
    return root.uri().rstrip("/").rpartition("/")[2]


def new_root(warehouse: str, given: str, source: Storage) -> Storage:
    """The storage at the root of a cube that is to be written, beside another.

    Parameters
    ----------
    warehouse : str
    given : str
        As a user has given it: a name, or a URI.
    source : Storage
        At the root of the other.

    Raises
    ------
    SpecError
        It is neither, or lies in the other, or holds it, or lies in the warehouse where no cube does.
    NotWritableError
        Something that is no cube lies there.
    """
    root = cube_root(warehouse, given)
    uri, whole = normal_address(root.uri()), normal_address(Storage.at(warehouse).uri())
    other = normal_address(source.uri())
    if uri != other and (is_below(uri, other) or is_below(other, uri)):
        raise SpecError(f"target {given!r}: one cube would lie in the other ({other}); name another place")
    check_allowed(uri, whole)
    if (is_below(uri, whole) or is_below(whole, uri)) and not is_own(uri, whole):
        raise SpecError(
            f"target {given!r} lies in the warehouse, but not as its cubes do; give a name, or a place "
            "outside of it"
        )
    root.refuse_web_server("metadata.json")
    refuse_published(uri)
    strange = [entry.path for entry in root.list() if not _is_of_a_cube(entry.path)]
    if strange and VersionLog(root).newest() is None:
        raise NotWritableError(f"{root.uri()} holds {strange[0]!r}, which is of no cube; name an empty place")
    return root


def changed_root(warehouse: str, given: str) -> Storage:
    """The storage at the root of a cube of which something is to be removed.

    Parameters
    ----------
    warehouse : str
    given : str
        As a user has given it: a name, or a URI.

    Raises
    ------
    SpecError
        It is neither, or no cube of the warehouse and nowhere that `HIPSLAKE_OUTPUTS` lists.
    """
    root = cube_root(warehouse, given)
    uri, whole = normal_address(root.uri()), normal_address(Storage.at(warehouse).uri())
    apart = not is_below(uri, whole) and not is_below(whole, uri)
    if not is_own(uri, whole) and not (apart and is_listed(uri)):
        raise SpecError(
            f"cube {given!r} is no cube of the warehouse, and {OUTPUTS} does not list its place: nothing is "
            "removed there"
        )
    return root


def is_own(uri: str, warehouse: str) -> bool:
    """Whether a normal address is that of a cube of the warehouse."""
    folder, _, name = uri.rpartition("/")
    return folder == normal_address(f"{warehouse}/{CUBES}") and re.fullmatch(NAME_PATTERN, name) is not None


def _is_of_a_cube(name: str) -> bool:
    """Whether a name at a root is one that a write makes, maybe one that died."""
    return name == "_versions" or is_write_id(name)
