"""A warehouse that fills up or may not be written, in any step: a clear error, nothing published."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hipslake import Catalog
from hipslake.errors import CatalogNotFoundError, NoSpaceError, NotWritableError, StorageError
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.report import Report
from hipslake.steps.run import RunFolder

from tests.steps import in_process
from tests.system.whole import assert_same_catalog, pointers

MIB = 1 << 20
SIZE = 96 * MIB  # resolve wants 64 MiB to be free
STEPS: dict[str, Callable[[RunFolder], Report]] = {
    "inputs": in_process.freeze,
    "histogram": in_process.count,
    "plan": in_process.make_plan,
    "write": in_process.write_leaves,
    "verify": in_process.check,
    "publish": in_process.commit,
    "view": in_process.show,
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A landing folder and its spec."""
    place = tmp_path_factory.mktemp("bad-places")
    in_process.write_source(place / "landing")
    in_process.write_spec(place / "stars.yaml", f"{place}/landing/*.parquet")
    return place


@pytest.fixture(scope="module")
def undisturbed(place: Path) -> Path:
    in_process.ingest(in_process.start(place / "undisturbed", place / "stars.yaml"))
    return place / "undisturbed" / "catalogs" / "stars"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of the test's own; needs root."""
    mounted = tmp_path / "disk"
    mounted.mkdir()
    try:
        command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(mounted)]
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"file systems cannot be mounted here: {error}")
    yield mounted
    subprocess.run(["umount", str(mounted)], check=True)


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """Fill a disk to its last byte."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        status = os.statvfs(disk)
        os.posix_fallocate(file.fileno(), 0, status.f_bavail * status.f_bsize)
    yield
    ballast.unlink()


@contextmanager
def read_only(disk: Path) -> Iterator[None]:
    """Forbid all writing to a disk, as a file system with errors does."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    yield
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)


TROUBLES = {
    "full": (full, NoSpaceError, "free some space|free space"),
    "read-only": (read_only, NotWritableError, "may not be written"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_no_run_starts_in_a_warehouse_that_cannot_take_it(disk: Path, place: Path, trouble: str) -> None:
    within, error, mend = TROUBLES[trouble]
    with within(disk), pytest.raises(error, match=mend):
        in_process.start(disk / "warehouse", place / "stars.yaml")
    assert FrozenRun.of(in_process.start(disk / "warehouse", place / "stars.yaml")).catalog == "stars"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("step", "trouble"),
    [
        ("histogram", "full"),
        ("write", "full"),
        ("write", "read-only"),
        ("publish", "full"),
        ("publish", "read-only"),
        ("view", "full"),
    ],
)
def test_trouble_in_mid_run_publishes_nothing_and_the_next_attempt_completes(
    disk: Path, place: Path, undisturbed: Path, step: str, trouble: str
) -> None:
    within, error, _ = TROUBLES[trouble]
    warehouse = disk / "warehouse"
    catalog = warehouse / "catalogs" / "stars"
    folder = in_process.start(warehouse, place / "stars.yaml")
    names = list(STEPS)
    for earlier in names[: names.index(step)]:
        STEPS[earlier](folder)
    standing = pointers(catalog)
    with within(disk):
        with pytest.raises(StorageError) as raised:
            STEPS[step](folder)
        assert type(raised.value) is error
        assert str(disk) in str(raised.value)
        assert pointers(catalog) == standing
        if step != "view":
            with pytest.raises(CatalogNotFoundError):
                Catalog.open(catalog)
    for later in names[names.index(step) :]:
        STEPS[later](folder)
    assert_same_catalog(catalog, undisturbed)


def test_a_warehouse_with_little_room_is_refused_before_anything_is_done(disk: Path, place: Path) -> None:
    with (disk / "ballast").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, SIZE - 40 * MIB)
    with pytest.raises(NoSpaceError, match=r"only \d+ MiB are free.*HIPSLAKE_WAREHOUSE"):
        in_process.start(disk / "warehouse", place / "stars.yaml")
