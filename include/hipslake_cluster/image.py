"""The image without a container engine: the steps of the Dockerfile, taken in a folder.

The folder is laid out as the image is: its Python is a virtual environment in `usr/local`, the project lies
in `opt/hipslake`. Only what the Dockerfile copies is there, and only the packages that it installs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

PROGRAMS = {"openjdk-17-jre-headless": "java", "procps": "ps"}
"""A program of each Debian package that the image installs: outside of it, the machine has to have them."""

IMAGE_ROOTS = ("/usr/local", "/opt/hipslake")
"""Folders that all containers of an image share. All others belong to one container."""

_OF_BUILD = ("UV_SYSTEM_PYTHON", "UV_NO_CACHE", "PIP_NO_CACHE_DIR")  # an image is thrown away with its caches
_INSTRUCTIONS = ("FROM", "RUN", "COPY", "WORKDIR", "ENV", "USER")
_INSTALL = ["apt-get", "install"]
_RUN = ("pip", "sed", "uv")
_NOT_RUN = ("rm", "useradd", "mkdir", "chown")  # folders and users are each container's own
_LAYERS = ".layers"


class Step(NamedTuple):
    """An instruction of a Dockerfile."""

    word: str
    text: str


class ImageError(RuntimeError):
    """A step of the Dockerfile failed, or is one that is not known here."""


def read_steps(dockerfile: Path) -> list[Step]:
    """Return the instructions of a Dockerfile, each on one line, without comments."""
    lines = [line for line in dockerfile.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [Step(*line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


class Image:
    """An image in a folder.

    Parameters
    ----------
    project : Path
        The folder of the Dockerfile.
    root : Path
        Where the image comes to lie.
    """

    def __init__(self, project: Path, root: Path) -> None:
        self.project = project
        self.root = root
        self.steps = read_steps(project / "Dockerfile")

    def at(self, path: str) -> str:
        """Return where a path of the image lies on this machine; outside of the image's roots: as it is."""
        inside = any(path == root or path.startswith(f"{root}/") for root in IMAGE_ROOTS)
        return f"{self.root}{path}" if inside else path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return Path(self.at("/usr/local/bin/python"))

    @property
    def variables(self) -> dict[str, str]:
        """What ENV sets, with the paths of the image as they are written."""
        entries = [entry for step in self.steps if step.word == "ENV" for entry in shlex.split(step.text)]
        found = {name: value for name, _, value in (entry.partition("=") for entry in entries)}
        return {
            name: value for name, value in found.items() if name not in (*_OF_BUILD, "UV_COMPILE_BYTECODE")
        }

    @property
    def folders(self) -> list[str]:
        """The folders that its user may write to, as they are written."""
        commands = [
            part for step in self.steps if step.word == "RUN" for part in re.split(r"\s&&\s", step.text)
        ]
        words = [shlex.split(command) for command in commands]
        return [path for word, *rest in words if word == "mkdir" for path in rest if not path.startswith("-")]

    def build(self, say: Callable[[str], None] = lambda _: None) -> None:
        """Take the steps that are not taken yet, or whose files have changed.

        Raises
        ------
        ImageError
            If a step fails, or cannot be taken here.
        """
        if unknown := self.unknown_steps():
            raise ImageError(
                f"Dockerfile: no way is known to take these steps without a container: {unknown}"
            )
        self.root.parent.mkdir(parents=True, exist_ok=True)
        with self.root.with_name(f"{self.root.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._build(say)

    def unknown_steps(self) -> list[str]:
        """Return the instructions, and the programs and Debian packages of RUN, that cannot be had here."""
        runs = [
            shlex.split(command) for step in self.steps if step.word == "RUN" for command in _commands(step)
        ]
        packages = [
            name for run in runs if run[:2] == _INSTALL for name in run[2:] if not name.startswith("-")
        ]
        return [
            *(step.word for step in self.steps if step.word not in _INSTRUCTIONS),
            *(run[0] for run in runs if run[0] not in (*_RUN, *_NOT_RUN, _INSTALL[0])),
            *(name for name in packages if name not in PROGRAMS),
        ]

    def _build(self, say: Callable[[str], None]) -> None:
        wanted = list(self._layers())
        layers = self.root / _LAYERS
        done = layers.read_text().split() if layers.exists() else []
        same = next((at for at, key in enumerate(wanted) if at >= len(done) or done[at] != key), len(wanted))
        if same == len(wanted) == len(done):
            return
        if same <= self._packages():
            shutil.rmtree(self.root, ignore_errors=True)
            same = 0
        self.root.mkdir(parents=True, exist_ok=True)
        for at in range(same, len(wanted)):
            say(f"image: {self.steps[at].word} {self.steps[at].text}")
            self._take(self.steps[at])
            layers.write_text("\n".join(wanted[: at + 1]))

    def _packages(self) -> int:
        """Return the number of the step that installs the packages: what lies before it is in all others."""
        return next(
            at for at, step in enumerate(self.steps) if step.word == "RUN" and "requirements.txt" in step.text
        )

    def _layers(self) -> Iterator[str]:
        """Yield a key per step: of all up to it, and of the files that it copies."""
        key = hashlib.sha256(f"{self.root}\n{sys.version}".encode())
        for step in self.steps:
            key.update(f"{step.word} {step.text}\n".encode())
            if step.word == "COPY":
                for path in self._copied(step):
                    key.update(f"{path.relative_to(self.project)}\n".encode())
                    key.update(os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes())
            yield key.hexdigest()

    def _copied(self, step: Step) -> list[Path]:
        """Files and links; a link stays one, also where it leads to a folder."""
        sources = [self.project / name for name in shlex.split(step.text)[:-1]]
        found = [path for source in sources for path in ([source] if source.is_file() else source.rglob("*"))]
        return sorted(
            path
            for path in found
            if (path.is_file() or path.is_symlink()) and "__pycache__" not in path.parts
        )

    def _take(self, step: Step) -> None:
        if step.word == "FROM":
            self._from(step.text)
        elif step.word == "COPY":
            self._copy(step)
        elif step.word == "RUN":
            for command in _commands(step):
                self._run(command)
        elif step.word == "WORKDIR":
            Path(self.at(step.text)).mkdir(parents=True, exist_ok=True)

    def _from(self, image: str) -> None:
        found = re.fullmatch(r"python:(\d+)\.(\d+)-slim-bookworm", image)
        if found is None or sys.version_info[:2] < (int(found[1]), int(found[2])):
            raise ImageError(
                f"Dockerfile: it starts from {image}, and this Python is {sys.version.split()[0]}"
            )
        base = getattr(sys, "_base_executable", sys.executable)
        subprocess.run([base, "-m", "venv", self.at("/usr/local")], check=True)

    def _copy(self, step: Step) -> None:
        *_, target = shlex.split(step.text)
        place = Path(self.at("/opt/hipslake"))
        if target != "./":
            shutil.rmtree(place / target, ignore_errors=True)
        for path in self._copied(step):
            to = place / path.relative_to(self.project)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.unlink(missing_ok=True)
            shutil.copy2(path, to, follow_symlinks=False)

    def _run(self, command: str) -> None:
        """Run a command of a step; what only root can do is looked for, or has nothing to do here."""
        words = shlex.split(command)
        if words[:2] == _INSTALL:
            packages = [name for name in words[2:] if not name.startswith("-")]
            missing = [name for name in packages if shutil.which(PROGRAMS[name]) is None]
            if missing:
                raise ImageError(
                    f"the image has {', '.join(missing)}, and this machine has not; install them"
                )
        elif words[0] in _RUN:
            self._shell(command)

    def _shell(self, command: str) -> None:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
            "PATH": os.pathsep.join([self.at("/usr/local/bin"), os.environ.get("PATH", os.defpath)]),
            "VIRTUAL_ENV": self.at("/usr/local"),
            "UV_COMPILE_BYTECODE": "1",
        }
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.at("/opt/hipslake"),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ImageError(f"Dockerfile: {command} failed:\n{done.stdout[-4000:]}")


def _commands(step: Step) -> list[str]:
    return [command.strip() for command in re.split(r"\s&&\s", step.text)]
