"""Version logs with all that lies about them: sound ones of several shapes, with some files spoilt."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from functools import cache
from random import Random
from typing import Any

from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import HEARTBEAT, mark_path
from hipslake.versions.log_files import POINTER, TOMBSTONES, UNSIGNED, signed, tombstone, version_path
from hipslake.versions.ordinals import ORDINALS
from hipslake.versions.pins import pin_path

from tests.catalog.little import WRITE, sky, write_little
from tests.catalog.publishing import stars
from tests.fuzz.mutation import TEXTS, reshaped, spoilt
from tests.fuzz.target import Case

COLLECTION = "collection.properties"
DEAD, LIVE, VANISHED = "20200401T0000-dead", "20200501T0000-beef", "20200601T0000-feed"
"""Writes that no version names: of a run that died, of one at work, and one that was swept."""
LONG_AGO, EVER_AFTER = 1_600_000_000.0, 32_000_000_000.0  # seconds; the same inputs at any time
_STRANGERS = (
    "_versions/00000000.json",
    "_versions/9999999999999999999999.json",
    "_versions/000000001.json",
    "_versions/00000009.json",
    "_versions/x.json",
    "_versions/ordinals/x.json",
    f"_versions/pins/{WRITE}.json",
    f"_versions/swept/{WRITE}.json",
    f"{WRITE}/{HEARTBEAT}",
    f"{VANISHED}/x.parquet",
    "20209999T9999-abcd/x.parquet",
    "current",
)
_WORDS = (*(WRITE, DEAD, LIVE, VANISHED, "00000001", "beating", "resting", "4", "1e999", "-3"), *TEXTS[:12])

Files = dict[str, bytes]


def make_log(random: Random) -> Case:
    """The files of a catalog, as JSON of path to content; `told` lists the spoilt ones."""
    files = sound_log(random)
    changed: set[str] = set()
    if random.random() < 0.9:
        for _ in range(random.choice((2, 4, 6, 8))):
            changed |= set(random.choice(_CHANGES)(random, files))
    content = {path: data.decode("latin-1") for path, data in files.items()}
    return Case(json.dumps(content).encode(), ".json", {"changed": sorted(changed)})


def files_of(case: Case) -> Files:
    """The files that a case is made of."""
    return {path: content.encode("latin-1") for path, content in json.loads(case.data).items()}


def sound_log(random: Random) -> Files:
    """The files of a log that was written to, rolled back, vacuumed, read and swept as it may happen."""
    versions = _versions(random, random.randint(1, 6))
    text = _signed if _likely(random) else _unsigned
    files: Files = {}
    taken = random.sample(range(1, len(versions)), random.randrange(len(versions))) if _likely(random) else []
    for number, document in enumerate(versions, 1):
        gone = number in taken
        files[version_path(number)] = tombstone(number, document["write_id"]) if gone else text(document)
    if taken and random.random() < 0.7:
        noted = random.sample(taken, random.randint(1, len(taken)))
        told = {str(number): versions[number - 1]["write_id"] for number in sorted(noted)}
        files[TOMBSTONES] = json.dumps(told).encode()
    if random.random() < 0.9:
        behind = len(versions) - 1 if random.random() < 0.2 else len(versions)
        files[POINTER] = text(versions[max(behind, 1) - 1])
    if _likely(random):
        files[COLLECTION] = f"obs_collection={versions[-1]['write_id']}/main\n".encode()
    for number, document in enumerate(versions, 1):
        _lay_write(random, files, document["write_id"])
        files[f"{ORDINALS}/{number - 1:08d}.json"] = _told(ordinal=number - 1, owner=document["write_id"])
    _lay_others(random, files, len(versions))
    return files


def _signed(document: dict[str, Any]) -> bytes:
    """A version's file with its checksum, as it is written."""
    return signed(json.dumps({**document, "sha256": UNSIGNED}).encode())


def _unsigned(document: dict[str, Any]) -> bytes:
    """A version's file as earlier versions of the library wrote it."""
    return json.dumps(document).encode()


def _versions(random: Random, count: int) -> list[dict[str, Any]]:
    """The metadata of versions: each a new whole, one that was appended to, or an older one once more."""
    versions: list[dict[str, Any]] = []
    for number in range(1, count + 1):
        write, restored = f"202003{number:02d}T0330-{number:04x}", None
        match random.choice(("whole", "append", "append", "append", "rollback")) if versions else "whole":
            case "append":
                document = copy.deepcopy(versions[-1])
                last = document["increments"][-1]
                document["increments"].append({**last, "ordinal": last["ordinal"] + 1, "write_id": write})
            case "rollback" if number > 2:
                restored = random.randint(1, number - 2)
                document = copy.deepcopy(versions[restored - 1])
            case _:
                document = json.loads(_whole().replace(WRITE, write))
        document.pop("sha256", None)
        document |= {"version": number, "parent": number - 1 or None, "restored": restored, "write_id": write}
        versions.append(document)
    return versions


@cache
def _whole() -> str:
    degrees = sky(20)
    place = Storage.at("memory://fuzz-log")
    position = {"ra": "ra", "dec": "dec"}
    return (
        write_little(place, stars(degrees), degrees, position=position, layout="hipscat").to_json().decode()
    )


def _lay_write(random: Random, files: Files, write: str) -> None:
    files[f"{write}/main.parquet"] = write.encode()
    if random.random() < 0.3:
        files[f"{write}/{HEARTBEAT}"] = _beat(random, random.choice((LONG_AGO, EVER_AFTER)))


def _lay_others(random: Random, files: Files, versions: int) -> None:
    """What runs leave that died, are at work, or were swept."""
    for write, time in ((DEAD, LONG_AGO), (LIVE, EVER_AFTER)):
        if _likely(random):
            files[f"{write}/a/b.parquet"] = b"x"
            if write == LIVE or _likely(random):
                files[f"{write}/{HEARTBEAT}"] = _beat(random, time)
            if _likely(random):
                files[pin_path(write)] = _told(versions=[random.randint(1, versions)])
    if _likely(random):
        files[mark_path(VANISHED)] = _told(time=random.choice((LONG_AGO, EVER_AFTER)))
    if random.random() < 0.3:
        files["_versions/.00000001.json.0123abcd.tmp"] = b'{"version": 1'
    if random.random() < 0.3:
        files[".metadata.json.0123abcd.tmp"] = b""


def _beat(random: Random, time: float) -> bytes:
    return _told(state=random.choice(("beating", "resting")), time=time, host="h", pid=1)


def _told(**told: Any) -> bytes:
    return json.dumps(told).encode()


def _likely(random: Random) -> bool:
    return random.random() < 0.5


def _any(random: Random, files: Files) -> str:
    """Any file; as often one of the log's own as one of what lies about."""
    own = [path for path in files if path.startswith("_versions/") or path == POINTER]
    return random.choice(own if _likely(random) and own else list(files) or [POINTER])


def _wear(random: Random, files: Files) -> Iterable[str]:
    path = _any(random, files)
    files[path] = spoilt(random, files.get(path, b""), list(files.values()), most=2)
    return [path]


def _reshape(random: Random, files: Files) -> Iterable[str]:
    path = _any(random, files)
    try:
        document = json.loads(files[path])
        files[path] = json.dumps(reshaped(random, document, _WORDS, most=2)).encode()
    except (KeyError, ValueError, RecursionError):  # it is no JSON, or none any more
        files[path] = b"{}"
    return [path]


def _replace(random: Random, files: Files) -> Iterable[str]:
    path = _any(random, files)
    texts = ("", "[", "null", "[]", "{}", "1", '"x"', "\x00", "[" * 20_000, *TEXTS[:20])
    files[path] = random.choice(texts).encode("utf-8", "surrogatepass")
    return [path]


def _drop(random: Random, files: Files) -> Iterable[str]:
    path = _any(random, files)
    files.pop(path, None)
    return [path]


def _mistake(random: Random, files: Files) -> Iterable[str]:
    """One file is taken for another, as who restores from a backup by hand may do."""
    path, other = _any(random, files), _any(random, files)
    files[path] = files.get(other, b"")
    return [path]


def _add(random: Random, files: Files) -> Iterable[str]:
    path = random.choice(_STRANGERS)
    files[path] = (
        files.get(_any(random, files), b"") if _likely(random) else _told(time=LONG_AGO, versions=[1])
    )
    return [path]


_CHANGES: tuple[Callable[[Random, Files], Iterable[str]], ...] = (
    *(_wear, _wear, _reshape, _reshape),
    *(_replace, _drop, _mistake, _add),
)
