"""Version logs, read by all that reads them; what is read whole is held against the files themselves."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hipslake.api.catalog import Catalog
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import HEARTBEAT, mark_path, pulse
from hipslake.versions.log import VersionLog
from hipslake.versions.log_files import POINTER, TOMBSTONES, is_signed, version_path
from hipslake.versions.orphans import sweep_orphans
from hipslake.versions.pins import PINS, pinned_versions

from tests.fuzz.target import Case, Target, refusals
from tests.fuzz.version_logs import COLLECTION, DEAD, LIVE, Files, files_of, make_log

_VERSION = re.compile(r"_versions/(\d{8})\.json")


def read_log(case: Case, folder: Path) -> None:
    """Ask all that a log is asked; if nothing is refused, every answer has to be right."""
    files = files_of(case)
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
        if path.endswith(HEARTBEAT) and path not in case.told["changed"]:
            os.utime(folder / path, (json.loads(data)["time"],) * 2)
    storage = Storage.at(folder)
    log = VersionLog(storage)
    answers: dict[str, Any] = {}
    with refusals() as tried:

        def ask(what: str, question: Callable[[], Any]) -> None:
            answers[what] = tried(question)

        ask("newest", log.newest)
        ask("numbers", log.numbers)
        ask("vacuumed", log.vacuumed)
        ask("texts", lambda: list(log.texts()))
        ask("each", lambda: [log.read(number) for number in reversed(answers["numbers"] or ())])
        ask("read", log.read)
        ask("found", lambda: {write: log.find(write) for write in (DEAD, *_writes(files))})
        ask("pinned", lambda: pinned_versions(storage))
        ask("pulse", lambda: [pulse(storage, write) for write in (DEAD, LIVE)])
        ask("opened", lambda: Catalog.open(folder))
        ask("pointed at", log.publish_pointers)
        ask("would sweep", lambda: sweep_orphans(storage, 0, dry_run=True))
        ask("swept", lambda: sweep_orphans(storage, 0))
        ask("numbers after", log.numbers)
    changed = set(case.told["changed"])
    _check_answers(files, changed, answers)
    _check_left(files, changed, answers, folder)


def _check_answers(files: Files, changed: set[str], answers: dict[str, Any]) -> None:
    """What the log says is what its files say, read by the plainest of ways."""
    versions = _by_number(files)
    standing = {number: data for number, data in versions.items() if not _tombstone(data)}
    assert answers["texts"] == answers["each"], "all texts are others than each"
    assert answers["numbers after"] == answers["numbers"], "a sweep takes versions away"
    assert answers["swept"] == answers["would sweep"], "it sweeps something else than it said"
    if not changed & {TOMBSTONES, *(path for path in files if _VERSION.fullmatch(path))}:
        taken = {
            number: json.loads(data)["write_id"] for number, data in versions.items() if _tombstone(data)
        }
        assert answers["vacuumed"] == taken, "others are vacuumed than those with tombstones"
        assert answers["numbers"] == sorted(standing)
        assert answers["texts"] == [standing[number] for number in sorted(standing, reverse=True)]
    if POINTER in changed or list(versions) != list(range(1, len(versions) + 1)):
        return
    newest = len(versions)
    assert answers["newest"] == answers["pointed at"] == newest
    assert answers["read"] in (versions[newest], files.get(POINTER))
    assert answers["opened"].metadata.write_id == json.loads(answers["read"])["write_id"]
    committed = [_head(versions[number]).get("write_id") for number in range(1, newest + 1)]
    for write, found in answers["found"].items():
        last = max((number for number, each in enumerate(committed, 1) if each == write), default=None)
        assert found == last, f"{write} is found as version {found}, not {last}"


def _check_left(files: Files, changed: set[str], answers: dict[str, Any], folder: Path) -> None:
    """A sweep leaves all that a version may need and who is at work, and takes what is dead."""
    texts = [*answers["texts"], answers["read"], files.get(COLLECTION, b"")]  # pointers were put right before
    pinning = any(path.startswith(PINS) for path in {*files, *changed})
    for path, data in files.items():
        write, _, rest = path.partition("/")
        if rest not in ("main.parquet", "a/b.parquet"):
            continue
        left = (folder / path).exists()
        if any(write.encode() in text for text in texts):
            assert left, f"{path} is swept, and a version names its write"
            assert (folder / path).read_bytes() == data
        elif f"{write}/{HEARTBEAT}" not in changed and not pinning:
            alive = _beats(files.get(f"{write}/{HEARTBEAT}"))
            assert left == alive, f"{path} is {'left' if left else 'swept'}, and its write beats: {alive}"
            assert left or (folder / mark_path(write)).exists(), f"{write} is swept without a mark"
    number, pointed = answers["pointed at"], (folder / POINTER).read_bytes()
    version, copy = version_path(number), files.get(POINTER, b"")
    if version in files and version not in changed and not _tombstone(files[version]):
        assert pointed == files[version], "the newest version is not what is pointed at"
    elif is_signed(copy) and POINTER not in changed and _head(copy).get("version") == number:
        assert pointed == copy, "a sound copy is given up for a damaged version"
    else:
        assert pointed in (answers["read"], files.get(version))


def _by_number(files: Files) -> Files:
    found = {match[1]: data for path, data in files.items() if (match := _VERSION.fullmatch(path))}
    return {int(number): data for number, data in sorted(found.items())}  # type: ignore[misc]


def _writes(files: Files) -> list[str]:
    return sorted({path.partition("/")[0] for path in files if path.startswith("2020")})


def _tombstone(data: bytes) -> bool:
    return len(data) <= 1024 and _head(data).get("tombstone") is True


def _head(data: bytes) -> dict[str, Any]:
    """What a version's file says; nothing if it is damaged, which need not be seen where it is not read."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _beats(data: bytes | None) -> bool:
    """Beats of the sound are of long ago, or of a time to come."""
    return data is not None and json.loads(data)["time"] > 30_000_000_000.0


TARGET = Target("version log", make_log, read_log, share=3)
