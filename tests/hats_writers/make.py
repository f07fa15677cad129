"""Make the archive of catalogs by other tools anew: `python -m tests.hats_writers.make`, some minutes.

Each writer gets an environment of its own with the packages as they were on its day (`uv`, Python 3.11) and
writes what it can (`made_by/importer.py`, `made_by/lsdb_writer.py`). The newest LSDB reads it
(`made_by/lsdb_reader.py`); what that one cannot read is read by the LSDB of the writer's own environment.
hats-import begins with 0.4 on PyPI: what came before it is hipscat-import.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from tests.hats_writers.rows import TABLES
from tests.hats_writers.trees import ARCHIVE, LIST, leaf_files

PLACE = Path("/tmp/hipslake-writers")
"""Where they are made: catalogs name their mains and sources by these paths."""
PYTHON = "3.11"
MADE_BY = Path(__file__).with_name("made_by")


@dataclass(frozen=True)
class Environment:
    """What is installed for an importer and for LSDB of about the same day."""

    importer: str
    lsdb: str
    day: str
    """No package that is newer."""
    more: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return PLACE / "environments" / self.importer

    @property
    def writers(self) -> dict[str, str]:
        """The folder of each writer to the program that writes it."""
        return {
            self.importer.replace("==", "-"): "importer.py",
            self.lsdb.replace("==", "-"): "lsdb_writer.py",
        }


ENVIRONMENTS = (
    Environment("hipscat-import==0.3.5", "lsdb==0.3.0", "2024-09-30", ("numpy<2",)),
    Environment("hats-import==0.4.4", "lsdb==0.4.5", "2025-02-28"),
    Environment("hats-import==0.6.7", "lsdb==0.6.7", "2025-10-30"),
    # hats-import makes indices with this dask only
    Environment("hats-import==0.10.4", "lsdb==0.10.2", "2026-10-01", ("dask<2025.4",)),
    Environment("hats-import==0.11.1", "lsdb==0.11.1", "2026-11-15", ("dask<2025.4",)),
)


def main() -> None:
    """Write `catalogs.tar.xz` and `trees.json`."""
    shutil.rmtree(PLACE, ignore_errors=True)
    rows = PLACE / "rows"
    rows.mkdir(parents=True)
    for name, made in TABLES.items():
        pq.write_table(made(), rows / f"{name}.parquet")
    for environment in ENVIRONMENTS:
        _install(environment)
        for writer, program in environment.writers.items():
            folder = PLACE / "catalogs" / writer
            folder.mkdir(parents=True)
            _run(environment, program, rows, folder)
    listed = [tree for environment in ENVIRONMENTS for tree in _read(environment)]
    LIST.write_text(json.dumps(listed, indent=1) + "\n")
    with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
        for part in ("catalogs", "expected"):
            archive.add(PLACE / part, part, filter=_kept)
    shutil.rmtree(PLACE)


def _install(environment: Environment) -> None:
    uv = ["uv", "--quiet"]
    wanted = [environment.importer, environment.lsdb, *environment.more]
    subprocess.run([*uv, "venv", "--python", PYTHON, environment.folder], check=True)
    python = environment.folder / "bin" / "python"
    subprocess.run(
        [*uv, "pip", "install", "--python", python, "--exclude-newer", environment.day, *wanted], check=True
    )


def _run(environment: Environment, program: str, *arguments: Path) -> None:
    """Run a program of `made_by`; what it prints goes into a file, which is shown if it fails."""
    log = PLACE / "log.txt"
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    python = environment.folder / "bin" / "python"
    with log.open("w") as output:
        done = subprocess.run(
            [python, MADE_BY / program, *arguments], stdout=output, stderr=output, env=bare, cwd=PLACE
        )
    if done.returncode:
        raise SystemExit(f"{program} with {environment.importer} failed:\n{log.read_text()[-4000:]}")


def _read(environment: Environment) -> Iterator[dict[str, object]]:
    """Have LSDB read what the environment wrote; yield what is known of each tree."""
    for writer in environment.writers:
        folder = PLACE / "catalogs" / writer
        read: dict[str, str] = {}
        for reader in (ENVIRONMENTS[-1], environment):
            place = PLACE / "read" / reader.lsdb / writer
            place.mkdir(parents=True)
            _run(reader, "lsdb_reader.py", folder, place)
            said = json.loads((place / "read.json").read_text())
            for name in [name for name, how in said.items() if "rows" in how and name not in read]:
                read[name] = reader.lsdb
                table = PLACE / "expected" / writer / f"{name}.parquet"
                table.parent.mkdir(parents=True, exist_ok=True)
                (place / f"{name}.parquet").rename(table)
            if read.keys() == said.keys():
                break
            print(writer, reader.lsdb, {name: how for name, how in said.items() if name not in read})
        made = json.loads((folder / "made.json").read_text())
        for name, what in made.items():
            if name in read:
                yield _described(writer, name, what, read[name], made)
            else:  # there is nothing to hold a reading against
                shutil.rmtree(folder / name)


def _described(
    writer: str, name: str, what: dict[str, str], reader: str, made: dict[str, dict[str, str]]
) -> dict[str, object]:
    path = PLACE / "catalogs" / writer / name
    leaves = {} if what["kind"] in ("index", "collection", "extension") else leaf_files(path)
    of_leaves = {file for files in leaves.values() for file in files}
    parts = [path / other.removeprefix(f"{name}/") for other in made if other.startswith(f"{name}/")]
    files = [
        file.relative_to(path).as_posix()
        for file in sorted(path.rglob("*"))
        if file.is_file()
        and file not in of_leaves
        and "Norder=" not in file.as_posix()
        and not any(file.is_relative_to(part) for part in parts)
    ]
    return {
        "name": f"{writer}/{name}",
        "kind": what["kind"],
        "of": f"{writer}/{what['of']}" if "of" in what else None,
        "made_of": what.get("rows"),
        "read_by": reader.replace("==", " "),
        "rows": pq.read_metadata(PLACE / "expected" / writer / f"{name}.parquet").num_rows,
        "orders": sorted({order for order, _ in leaves}),
        "files": files,
    }


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if Path(entry.name).name == "made.json":
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    return entry


if __name__ == "__main__":
    main()
