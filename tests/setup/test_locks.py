"""The locks: they pin what is asked for, and nothing of the machine that compiled them."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = (
    "requirements.txt",
    "benchmarks/requirements.txt",
    "benchmarks/requirements-older.txt",
    "benchmarks/requirements-cube.txt",
    "docs/requirements.txt",
    "tests/system/requirements-fab.txt",
)


def pins(lock: str) -> dict[str, list[Requirement]]:
    """Return the pinned requirements of a lock by name; a name may have one pin per Python."""
    found: dict[str, list[Requirement]] = {}
    for entry in entries(lock):
        requirement = Requirement(entry.partition(" --hash=")[0])
        found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


def entries(lock: str) -> list[str]:
    """Return the entries of a lock, each in one line, with its digests."""
    whole = (ROOT / lock).read_text().replace("\\\n", " ")
    lines = (" ".join(line.split()) for line in whole.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def asked_for(lock: str) -> list[Requirement]:
    """Return the requirements that a lock is compiled from."""
    if lock != "requirements.txt":
        lines = (ROOT / lock).with_suffix(".in").read_text().splitlines()
        return [Requirement(line) for line in lines if line and not line.startswith("#")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    return [
        Requirement(text)
        for text in [*project["dependencies"], *(text for extra in extras for text in extra)]
    ]


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_holds_what_is_asked_for(lock: str) -> None:
    pinned = pins(lock)
    for wanted in asked_for(lock):
        for pin in pinned[canonicalize_name(wanted.name)]:
            (version,) = (specifier.version for specifier in pin.specifier)
            assert wanted.specifier.contains(version, prereleases=True), f"{wanted}: run `make lock`"


@pytest.mark.parametrize("lock", LOCKS)
def test_every_entry_has_the_digests_of_its_files(lock: str) -> None:
    assert len(entries(lock)) > 15
    for entry in entries(lock):
        _, *digests = entry.split(" --hash=")
        assert digests, f"{entry}: run `make lock`"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in digests), entry


@pytest.mark.parametrize("place", ["include/setup/setup.sh", "Dockerfile"])
def test_nothing_is_installed_without_its_digest(place: str) -> None:
    """But this package itself, by what the lock brings."""
    text = (ROOT / place).read_text().replace("\\\n", " ")
    installs = re.findall(r"^.*?(pip install .*?)(?: && |$)", text.replace(" && ", "\n"), re.MULTILINE)
    assert len(installs) >= 3
    for command in installs:
        own = "--no-build-isolation --no-deps --editable ." in command
        assert own or "--require-hashes" in command, command


def test_a_file_of_another_digest_is_not_installed(tmp_path: Path) -> None:
    """What `setup.sh` does with the first of its packages, by an index that sends another file."""
    script = (ROOT / "include/setup/setup.sh").read_text()
    (cut,) = re.findall(r"sed -n '(.*?)' requirements\.txt", script)[:1]
    lock = subprocess.run(
        ["sed", "-n", cut, str(ROOT / "requirements.txt")], capture_output=True, text=True, check=True
    ).stdout
    assert re.match(r"uv==\S+ \\\n( +--hash=sha256:[0-9a-f]{64}( \\)?\n)+( +# .*\n)*\Z", lock)
    version = lock.partition("==")[2].split()[0]
    index = tmp_path / "index"
    index.mkdir()
    wheel = index / f"uv-{version}-py3-none-any.whl"
    told = f"uv-{version}.dist-info"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("uv.py", "print('not uv')\n")
        file.writestr(f"{told}/METADATA", f"Metadata-Version: 2.1\nName: uv\nVersion: {version}\n")
        file.writestr(f"{told}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{told}/RECORD", "")
    (tmp_path / "uv.txt").write_text(lock)
    plain = [sys.executable, "-m", "uv", "pip", "install", "--offline", "--no-index", "--no-cache"]
    aimed = [*plain, "--find-links", str(index), "--target", str(tmp_path / "target")]
    asked = [*aimed, "--require-hashes", "--requirement", str(tmp_path / "uv.txt")]
    refused = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "hash" in refused.stderr.lower()
    assert not (tmp_path / "target" / "uv.py").exists()
    subprocess.run([*aimed, f"uv=={version}"], capture_output=True, check=True)  # without its digest


@pytest.mark.parametrize("lock", LOCKS)
def test_every_line_is_an_exact_version_from_any_index(lock: str) -> None:
    for requirements in pins(lock).values():
        for pin in requirements:
            assert [specifier.operator for specifier in pin.specifier] == ["=="]
            assert pin.url is None
    assert not re.search(r"://|--index|--find-links|file:|^-[a-z] ", (ROOT / lock).read_text(), re.MULTILINE)


def test_spark_and_its_client_have_the_same_version() -> None:
    pinned = pins("requirements.txt")
    assert pinned["pyspark"][0].specifier == pinned["pyspark-client"][0].specifier
