"""What an upgrade would change: `python -m hipslake_airflow.upgrade_check`.

Run with the new version, in an environment beside the old one, on the warehouse, specs and database of the
deployment. It reads and changes nothing. Ends with 1 if something would stop working, else with 0.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from hipslake.cli.repeated_options import OneValueParser
from hipslake.errors import HipslakeError, InputError
from hipslake.library_version import __version__
from hipslake.specs.environment import expand
from hipslake.specs.spec_folder import SpecFolder
from packaging.requirements import InvalidRequirement, Requirement

from hipslake_airflow.deprecations import deprecations
from hipslake_airflow.hooks.storage import use_storage_connection
from hipslake_airflow.spec_folders import specs_folders

_CONTINUED = re.compile(r"\\\r?\n")
_OPTIONS = re.compile(r"(^|\s)#.*|\s--\w.*")  # comments, and what stands behind a requirement: --hash=...
_SIGNS = {"stops": "STOPS  ", "changes": "changes", "same": "same   "}


@dataclass(frozen=True)
class Effect:
    """Something that an upgrade does.

    Attributes
    ----------
    kind : str
        `stops`: would not work any more; `changes`: would be done otherwise; `same`: looked at, and the same.
    what : str
        What it is about: formats, specs, packages or database.
    text : str
        For people.
    """

    kind: Literal["stops", "changes", "same"]
    what: str
    text: str


def formats(warehouse: str) -> Iterator[Effect]:
    """Tell which catalogs and cubes are of an older format, of another library, or cannot be read.

    Parameters
    ----------
    warehouse : str
        A path or URI.
    """
    from hipslake.catalog.metadata import CatalogMetadata
    from hipslake.catalog.metadata.upgrade import FORMAT_VERSION
    from hipslake.cube.store.metadata import CubeMetadata
    from hipslake.storage.folder import Storage
    from hipslake.storage.plain_json import plain_json
    from hipslake.versions.log import VersionLog

    root, looked_at = Storage.at(warehouse), 0
    for kind in ("catalogs", "cubes"):
        for pointer in root.glob(f"{kind}/*/metadata.json"):
            place = Storage.at(root.uri(pointer.path.removesuffix("/metadata.json")))
            looked_at += 1
            try:
                data = VersionLog(place).read()
                read: CatalogMetadata | CubeMetadata
                if kind == "catalogs":
                    read = CatalogMetadata.from_json(data, where=place.uri())
                else:
                    read = CubeMetadata.from_json(data, place.uri())
            except HipslakeError as error:
                yield Effect("stops", "formats", str(error))
                continue
            written = plain_json(data)["format_version"]
            if written != FORMAT_VERSION:
                yield Effect(
                    "changes",
                    "formats",
                    f"{place.uri()}: version {read.version} has format version {written}; it stays and is "
                    f"read, and the next one is written as {FORMAT_VERSION}, which older libraries refuse: "
                    "upgrade all that read the warehouse first",
                )
            if read.library_version != __version__:
                yield Effect(
                    "changes",
                    "formats",
                    f"{place.uri()}: version {read.version} was written by hipslake {read.library_version}; "
                    "a run that makes a whole version builds it anew, though files and spec are the same",
                )
    yield Effect("same", "formats", f"{looked_at} catalogs and cubes in {warehouse} were looked at")


def specs(*folders: Path | str) -> Iterator[Effect]:
    """Tell which specs cannot be read any more, and what in them is an old form."""
    read = SpecFolder(*folders)
    for problem in read.problems().values():
        yield from (Effect("stops", "specs", line) for line in problem.splitlines())
    for path, lines in deprecations(read).items():
        yield from (Effect("changes", "specs", f"{path}: {line}") for line in lines)
    yield Effect("same", "specs", f"the specs in {', '.join(map(str, folders))} were read")


def packages(lock: Path) -> Iterator[Effect]:
    """Tell which packages of this environment are not those of a lock file.

    Parameters
    ----------
    lock : Path
        Requirements with `name==version`. Those whose marker (`; python_version < "3.12"`) is not true of
        this interpreter and machine are passed over.

    Raises
    ------
    InputError
        A line is no requirement.
    """
    same = 0
    for pinned in _pinned(lock):
        wanted = next((each.version for each in pinned.specifier if each.operator in ("==", "===")), None)
        if wanted is None:  # any version will do, or one of an address
            continue
        try:
            found: str | None = metadata.version(pinned.name)
        except metadata.PackageNotFoundError:
            found = None
        if found is not None and pinned.specifier.contains(found, prereleases=True):
            same += 1
        else:
            yield Effect(
                "changes", "packages", f"{pinned.name} {found or '(not installed)'} becomes {wanted}"
            )
    yield Effect("same", "packages", f"{same} packages are those of {lock}")


def _pinned(lock: Path) -> Iterator[Requirement]:
    """Give the requirements of a lock file that are for this interpreter and machine."""
    for line in _CONTINUED.sub(" ", lock.read_text()).splitlines():
        text = _OPTIONS.sub("", line).strip()
        if not text or text.startswith("-"):
            continue
        try:
            found = Requirement(text)
        except InvalidRequirement as error:
            problem = str(error).splitlines()[0]
            raise InputError(f"{lock}: {text!r} is no requirement: {problem}; make the lock anew") from None
        if found.marker is None or found.marker.evaluate({"extra": ""}):
            yield found


def database() -> Iterator[Effect]:
    """Tell whether the database of Airflow has the tables of the Airflow that is installed."""
    command = [sys.executable, "-m", "airflow", "db", "check-migrations", "--migration-wait-timeout", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        yield Effect("same", "database", "Airflow's database has the tables of this Airflow")
        return
    last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "it says nothing")
    if "unapplied migrations" in last:
        yield Effect(
            "changes",
            "database",
            "Airflow's database has the tables of another Airflow: stop Airflow, keep a copy of the "
            "database, and run `airflow db migrate`",
        )
    else:
        yield Effect("stops", "database", f"Airflow's database does not answer: {last}")


def told(effects: Iterable[Effect]) -> int:
    """Print effects, and return what the process ends with."""
    stops = changes = 0
    for effect in effects:
        print(f"{_SIGNS[effect.kind]} {effect.what}: {effect.text}", flush=True)
        stops += effect.kind == "stops"
        changes += effect.kind == "changes"
    print(f"hipslake {__version__}: {stops} things would stop, {changes} would change")
    return 1 if stops else 0


def main(arguments: list[str] | None = None) -> int:
    """Look at everything that the arguments name."""
    parser = OneValueParser(prog="python -m hipslake_airflow.upgrade_check", description=__doc__)
    parser.add_argument("--warehouse", default="${HIPSLAKE_WAREHOUSE}", help="its path or URI")
    parser.add_argument(
        "--specs", nargs="*", action="extend", help="folders of specs; by default those of HIPSLAKE_SPECS"
    )
    parser.add_argument("--lock", type=Path, help="requirements.txt of the new version")
    parser.add_argument("--no-database", action="store_true", help="leave Airflow's database alone")
    given = parser.parse_args(arguments)
    use_storage_connection()

    def effects() -> Iterator[Effect]:
        yield from formats(expand(given.warehouse))
        yield from specs(*(given.specs or specs_folders()))
        if given.lock:
            yield from packages(given.lock)
        if not given.no_database:
            yield from database()

    try:
        return told(effects())
    except (HipslakeError, OSError) as error:
        print(f"hipslake: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    os.environ.setdefault("AIRFLOW__LOGGING__LOGGING_LEVEL", "ERROR")
    sys.exit(main())
