"""How arguments name catalogs and specs: by name in a deployment, or by path or URI."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hipslake.api.catalog import Catalog

CATALOG = "name of a catalog in the warehouse, or its path or URI"


def add_catalog(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a version of a catalog."""
    parser.add_argument("catalog", metavar="CATALOG", help=CATALOG)
    parser.add_argument("--at", type=int, metavar="VERSION", help="this version; by default the newest")


def catalog_place(options: argparse.Namespace, name: str) -> str:
    """Return the root of a catalog, by its name in the warehouse, or its path or URI."""
    from hipslake.api.step_runner import warehouse_uri
    from hipslake.steps.run import catalog_uri

    if "/" in name or os.sep in name or name in (".", ".."):
        return name
    return catalog_uri(warehouse_uri(options.warehouse), name)


def opened(options: argparse.Namespace, name: str, version: int | None = None) -> Catalog:
    """Open a catalog; errors as of `Catalog.open`."""
    from hipslake.api.catalog import Catalog

    return Catalog.open(catalog_place(options, name), version)


def earlier_version(catalog: Catalog) -> int:
    """Return the version before one that was opened.

    Raises
    ------
    VersionNotFoundError
        If none before it can be opened.
    """
    from hipslake.errors import VersionNotFoundError

    number = max((each for each in catalog.versions() if each < catalog.version), default=None)
    if number is None:
        raise VersionNotFoundError(
            f"{catalog.uri}: no version before {catalog.version} can be opened; name one to compare it with"
        )
    return number


def specs_folders() -> list[Path]:
    """Return the folders whose subfolders hold the specs: those of `HIPSLAKE_SPECS`, parted by colons.

    By default it is `include/specs` of a checkout; elsewhere `specs` below the root.
    """
    from hipslake.specs.environment import in_checkout, root_folder

    given = [Path(each) for each in os.environ.get("HIPSLAKE_SPECS", "").split(os.pathsep) if each]
    return given or [root_folder() / ("include/specs" if in_checkout() else "specs")]


def spec_path(given: str, folder: str) -> Path:
    """Return the path of a spec: that of a file, or by the name of one in a folder of the deployment's specs.

    Parameters
    ----------
    given : str
        A path, or a name.
    folder : str
        `catalogs` or `joins`.

    Raises
    ------
    SpecError
        If no spec has the name.
    """
    from hipslake.errors import SpecError

    path = Path(given).expanduser()
    if path.is_file() or path.suffix in (".yaml", ".yml") or len(path.parts) > 1:
        return path
    places = [root / folder / f"{given}{ending}" for root in specs_folders() for ending in (".yaml", ".yml")]
    for place in places:
        if place.is_file():
            return place
    raise SpecError(f"no spec is called {given!r}: there is neither a file of this name nor {places[0]}")


def listed(text: str) -> list[str]:
    """Return the names in a list parted by commas."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r}: a name is empty; part names by single commas")
    return names
