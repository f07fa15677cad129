"""A PostgreSQL server from Debian's packages, with its data in a folder; used in place of the image."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from hipslake.specs.environment import PROJECT_ROOT

NOBODY = 65534  # PostgreSQL refuses to run as root
_LIBRARIES = PROJECT_ROOT / ".postgres" / "usr" / "lib"  # where `setup.sh postgres` unpacks it


def find_postgres() -> Path | None:
    """Return the folder of its programs: of the system's newest, or of what `setup.sh postgres` unpacked."""
    for place in (Path("/usr/lib/postgresql"), _LIBRARIES / "postgresql"):
        versions = sorted(place.glob("*/bin/initdb"), key=lambda program: int(program.parts[-3]))
        if versions:
            return versions[-1].parent
    program = shutil.which("initdb")
    return Path(program).resolve().parent if program else None


def libraries() -> dict[str, str]:
    """Return the variables that its programs need to find their libraries."""
    found = os.pathsep.join(map(str, _LIBRARIES.glob("*-linux-gnu*")))
    return {"LD_LIBRARY_PATH": found} if found else {}


def not_as_root() -> list[str]:
    """Return what goes before a command so that it is not root's, but finds its folder wherever that lies."""
    if os.geteuid() != 0:
        return []
    user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return ["setpriv", *user, "--inh-caps=+dac_override", "--ambient-caps=+dac_override"]


def make_database(programs: Path, data: Path, *, user: str, password: str, database: str) -> None:
    """Make an empty database, unless the folder holds one.

    Parameters
    ----------
    programs : Path
        The folder of `initdb` and `postgres`.
    data : Path
    user : str
        Its owner.
    password : str
        Which the owner logs in with; "": anybody may log in.
    database : str
    """
    if (data / "PG_VERSION").exists():
        return
    shutil.rmtree(data, ignore_errors=True)  # what an interrupted attempt left
    data.mkdir(parents=True, mode=0o700)
    with tempfile.NamedTemporaryFile("w", prefix="hipslake-") as told:
        told.write(password)
        told.flush()
        if os.geteuid() == 0:
            os.chown(data, NOBODY, NOBODY)
        guard = ["--auth=scram-sha-256", f"--pwfile={told.name}"] if password else ["--auth=trust"]
        _run([programs / "initdb", "--no-sync", f"--username={user}", "--encoding=UTF8", *guard, "-D", data])
    if database != "postgres":
        make = f'CREATE DATABASE "{database}"\n'
        _run([programs / "postgres", "--single", "-D", data, "postgres"], make)


def server_command(programs: Path, data: Path, address: str, port: int) -> list[str]:
    """Return the command that serves a database."""
    options = ["-D", data, "-h", address, "-p", port, "-k", ""]
    return [*not_as_root(), *map(str, [programs / "postgres", *options])]


def _run(command: list[object], text: str = "") -> None:
    words = [*not_as_root(), *map(str, command)]
    done = subprocess.run(
        words, input=text, env=os.environ | libraries(), cwd="/", capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
