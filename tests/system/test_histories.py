"""Random histories: processes that commit, roll back, vacuum and show at the same time, and die at random.

Whatever happens, every version that is listed is whole, and in the end one vacuum leaves no orphan.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.catalog.change import GroupChange, changed_group
from hipslake.catalog.layouts import layout_paths
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import PARTITION_SCHEMA
from hipslake.errors import ConflictError, SpecError, StorageError, VerificationError, VersionNotFoundError
from hipslake.specs.catalog_spec import CatalogSpec, Unchanged
from hipslake.sphere.pixels import Pixel
from hipslake.steps.upkeep.hats_view import show_newest
from hipslake.steps.upkeep.pointers import point_at_newest
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import Heartbeat, claim_write
from hipslake.versions.log import VersionLog
from hipslake.versions.orphans import sweep_orphans
from hipslake.versions.pins import Pin

from tests.catalog.leftovers import missing, orphans
from tests.steps import in_process
from tests.system import forked
from tests.system.dying import on_change
from tests.system.runs import DEAD_AT_ONCE

LIVES, AT_ONCE = 16, 4
ACTS = 6  # of a life, if it lasts so long
STALE_SECONDS = 5.0
BEAT_SECONDS = 0.2
MOST_CHANGES = 400  # of the file system, in a life that is cut short


def rewrite(storage: Storage, chance: random.Random) -> None:
    """Commit a version in which some leaves lie in another file, as an append does."""
    write_id = claim_write(storage, datetime.now(UTC))
    with Heartbeat(storage, write_id, rest=False) as heartbeat, Pin(storage, write_id) as pin:
        committed = False
        share = chance.uniform(0.1, 0.6)
        while not committed:
            base = CatalogMetadata.from_json(pin.hold_newest())
            group = base.groups[0]
            # Always the same leaves, so that no file is left over from an attempt that came too late.
            change = _moved(storage, base, write_id, lambda npix: hash((write_id, npix)) % 100 < 100 * share)
            changed = changed_group(
                group,
                change,
                spec=CatalogSpec.model_validate(base.spec),
                name=group.name,
                schema=base.schema_of(),
                storage=storage,
                write_id=write_id,
                max_inline=8,
            )
            metadata = base.model_copy(
                update={
                    "version": base.version + 1,
                    "parent": base.version,
                    "restored": None,
                    "write_id": write_id,
                    "created": datetime.now(UTC),
                    "groups": (changed,),
                }
            )
            heartbeat.confirm()
            outcome = VersionLog(storage).commit(metadata.version, metadata.to_json(), write_id)
            committed = outcome == "committed"
    with suppress(VersionNotFoundError):
        point_at_newest(storage)


def _moved(storage: Storage, base: CatalogMetadata, write_id: str, chosen: Any) -> GroupChange:
    table, paths = base.partitions(None, storage), layout_paths(base.layout)
    npix = table["npix"].to_pylist()
    removed = table.filter(pa.array([chosen(number) for number in npix]))
    group = base.groups[0].name
    pixels = zip(removed["order"].to_pylist(), removed["npix"].to_pylist(), strict=True)
    new = [paths.partition_path(write_id, group, Pixel(*pixel)) for pixel in pixels]
    for old, path in zip(removed["path"].to_pylist(), new, strict=True):
        storage.copy(old, path, durable=False)
    at = removed.schema.get_field_index("path")
    added = removed.set_column(at, PARTITION_SCHEMA.field("path"), pa.array(new, pa.string()))
    return GroupChange(removed=removed, added=added, beside=PARTITION_SCHEMA.empty_table())


def act(root: str, chance: random.Random) -> None:
    """One random deed."""
    storage = Storage.at(root)
    deed = chance.choices(["rewrite", "rollback", "vacuum", "show", "sweep"], [6, 3, 4, 2, 1])[0]
    if deed == "rewrite":
        rewrite(storage, chance)
    elif deed == "rollback":
        catalog = Catalog.open(root)
        number = chance.choice([*catalog.versions(), catalog.version + 3])
        with suppress(VersionNotFoundError, SpecError):
            catalog.rollback(number)
    elif deed == "vacuum":
        keep, only_told = chance.randint(1, 4), chance.random() < 0.2
        Catalog.open(root).vacuum(keep_versions=keep, keep_days=0, dry_run=only_told)
    elif deed == "show":
        show_newest(storage, Unchanged.LINK)
    else:
        sweep_orphans(storage)


def live(root: str, seed: int) -> None:
    """Some deeds; half of all lives end at a random change of the file system."""
    os.environ["HIPSLAKE_STALE_SECONDS"] = str(STALE_SECONDS)
    Heartbeat.__init__.__kwdefaults__["interval"] = BEAT_SECONDS
    chance = random.Random(seed)
    if chance.random() < 0.5:
        _die_after(chance.randint(1, MOST_CHANGES), root)
    for _ in range(ACTS):
        try:
            act(root, chance)
        except ConflictError:
            continue
        except StorageError as error:
            # A write id tells the minute only: with so short a limit, a new folder may look old at first.
            if "this write was swept" not in str(error):
                raise


def _die_after(changes: int, root: str) -> None:
    left = iter(range(changes))

    def count(_: object) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    on_change(root, count)


def run_life(root: str, seed: int) -> int:
    process = forked.start(live, root, seed)
    process.join(120)
    if process.is_alive():
        process.kill()
        process.join()
        return 1
    return int(process.exitcode or 0)


def check_listed(root: Path) -> int:
    """Check every version that is listed; one that is not whole must be gone when it is looked for again."""
    checked = 0
    for number in VersionLog(Storage.at(root)).numbers():
        try:
            Catalog.open(root, version=number).verify(workers=1).raise_if_failed()
            checked += 1
        except (VersionNotFoundError, VerificationError, StorageError, FileNotFoundError):
            if number in VersionLog(Storage.at(root)).numbers():
                raise
    return checked


def check_current(root: Path, source: pa.Table) -> int:
    """Check that `current`, if it is there, leads to every row once; or elsewhere once it is read."""
    while (root / "current").is_symlink():
        target = (root / "current").readlink()
        try:
            files = sorted((root / target).glob("**/Norder=*/**/*.parquet"))
            rows = pa.concat_tables(pq.ParquetFile(path).read() for path in files)
            assert rows.select(source.schema.names).sort_by("id").equals(source)
        except (AssertionError, FileNotFoundError, pa.ArrowInvalid):
            if (root / "current").is_symlink() and (root / "current").readlink() == target:
                raise
        else:
            return 1
    return 0


@pytest.mark.slow  # a matter of chance and of minutes; the fixed moments are in test_versions_killed.py
@pytest.mark.parametrize("layout", ["hats", "hipscat"])
def test_versions_are_whole_through_any_history(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = in_process.write_source(tmp_path / "landing", rows=1500)
    spec = in_process.write_spec(
        tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet", threshold="100 rows", layout=layout
    )
    in_process.ingest(in_process.start(tmp_path / "warehouse", spec))
    root = tmp_path / "warehouse" / "catalogs" / "stars"
    seed = random.randrange(10**6)
    print(f"seed {seed}", file=sys.stderr)  # of a history that failed
    checked = led = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        lives = [pool.submit(run_life, str(root), seed + number) for number in range(LIVES)]
        while not all(life.done() for life in lives):
            checked += check_listed(root)
            led += check_current(root, source)
            time.sleep(0.2)
    codes = [life.result() for life in lives]
    assert set(codes) == {0, -signal.SIGKILL}, codes
    assert checked > 0
    assert led > 0
    check_current(root, source)
    newest = Catalog.open(root)
    assert newest.version > LIVES / 2
    assert missing(root) == set()
    check_listed(root)
    for name, value in DEAD_AT_ONCE.items():
        monkeypatch.setenv(name, value)
    show_newest(newest.storage, Unchanged.LINK)
    assert (root / "current").readlink() == Path(newest.metadata.write_id)
    outcome = newest.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    assert outcome.postponed == ""
    assert outcome.kept == (newest.version,)
    assert orphans(root) == set()
    assert missing(root) == set()
    last = Catalog.open(root)
    last.verify().raise_if_failed()
    assert check_current(root, source)
    assert last.read(columns=source.schema.names).sort_by("id").equals(source)
