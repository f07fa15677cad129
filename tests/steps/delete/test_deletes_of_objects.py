"""Objects that are deleted and come back, and the nights of their sources: held against plain Python."""

from __future__ import annotations

import os
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from hipslake.catalog.checks.findings import ProblemKind
from hipslake.errors import BadRowsError, SpecError
from hipslake.steps.append import run as append_run

from tests.examples import examples
from tests.steps import in_process
from tests.steps.delete.objects_and_sources import (
    ELSEWHERE,
    NAMES,
    NIGHTS,
    OBJECTS,
    PLACES,
    Sky,
    a_sky,
    pixel,
    plain_rows,
)
from tests.steps.delete.test_delete_overtaken import before_the_first_commit
from tests.steps.sources_of_objects import KINDS

STEPS = int(os.environ.get("OBJECTS_STEPS", examples(14, part=2)))
SEED = int(os.environ.get("OBJECTS_SEED", "0"))  # another one gives other sequences


def step(sky: Sky, rng: np.random.Generator) -> None:
    """Do something at random."""
    now = sky.now
    what = rng.choice(
        ["objects", "delete", "sources", "others", "remedy", "unknown", "compact", "vacuum", "rollback"],
        p=[0.22, 0.22, 0.2, 0.15, 0.06, 0.04, 0.03, 0.04, 0.04],
    )
    name = {"others": "others"}.get(what, "sources")
    if what == "objects":
        number = int(rng.integers(NIGHTS))
        of_others = {each for each, night in sky.of_nights.items() if night != number}
        keyed = sky.objects_spec["mode"] == "upsert"
        absent = [each for each in range(OBJECTS) if keyed or each not in of_others]
        elsewhere = rng.random() < 0.3
        chosen = rng.choice(absent, min(len(absent), 8), replace=False).tolist()
        sky.bring_objects(number, {each: int(elsewhere and rng.integers(PLACES)) for each in chosen})
    elif what == "delete":
        sky.delete_objects(rng.choice(list(now), min(len(now), 3), replace=False).tolist() if now else [0])
    elif what in ("sources", "others") and now:
        number = int(rng.integers(NIGHTS))
        of = rng.choice(list(now), int(rng.integers(1, 8))).tolist()
        if sky.fits(name):
            sky.bring_sources(name, number, of)
        else:
            version = sky.lake.open(name).version
            with pytest.raises(SpecError, match=ELSEWHERE):
                sky.bring_sources(name, number, of)
            assert sky.lake.open(name).version == version
    elif what == "unknown":
        gone = [each for each in range(OBJECTS) if each not in now]
        if gone:
            with pytest.raises(BadRowsError, match="object id unknown"):
                sky.bring_sources("sources", 0, [*list(now)[:2], gone[0]])
    elif what == "remedy" and not sky.fits("sources"):
        apart = {of for of, at in sky.rows("sources").values() if now.get(of, at) != at}
        ids = [sky.id_of(each) for each in apart]
        sky.lake.open("sources").delete(filters=[("object_id", "in", ids)], force=True)
        for night in sky.sources["sources"].values():
            for key in [key for key, (of, _) in night.items() if of in apart]:
                del night[key]
    elif what == "compact" and "append" in sky.objects_spec:
        sky.compact()
    elif what == "rollback" and len(older := sky.lake.open("objects").versions()[:-1]):
        sky.roll_back(int(rng.choice(older)))
    elif what == "vacuum":
        for each in ("objects", *sky.sources):
            sky.lake.open(each).vacuum(keep_versions=1, keep_days=0, dry_run=False)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("layout", ["hats", "hipscat"])
def test_random_sequences(tmp_path: Path, layout: str, mode: str, kind: str) -> None:
    rng = np.random.default_rng(crc32(repr(("objects", layout, mode, kind, SEED)).encode()))
    sky = a_sky(tmp_path, layout, mode, kind)
    sky.bring_objects(0, dict.fromkeys(range(0, OBJECTS, 2), 0))
    for name in NAMES:
        sky.bring_sources(name, 0, rng.choice(list(sky.now), 9).tolist())
    for _ in range(STEPS):
        step(sky, rng)
        for name in NAMES:
            sky.assert_holds(name)
        sky.assert_join_of_sources()


def test_an_object_comes_back_where_it_was_or_elsewhere(tmp_path: Path) -> None:
    sky = a_sky(tmp_path)
    sky.bring_objects(0, dict.fromkeys(range(10), 0))
    sky.bring_sources("sources", 0, [1, 2, 3, 3])
    sky.delete_objects([3, 4])
    sky.assert_holds("sources")  # the sources of what is gone stay where they lie
    sky.bring_sources("sources", 1, [1, 5])
    assert sky.lake.open("sources").metadata.mark_of("object_id").objects.gone.rows == 2
    sky.bring_objects(1, {3: 0, 20: 0})
    sky.bring_sources("sources", 2, [3, 20])
    sky.assert_holds("sources")
    sky.delete_objects([3])
    sky.bring_objects(2, {3: 1, 4: 1})
    with pytest.raises(SpecError, match="1 objects of objects that have rows in sources, version 3, are"):
        sky.bring_sources("sources", 3, [5])
    sky.assert_joins("sources")
    sky.lake.open("sources").delete(filters=[("object_id", "=", sky.id_of(3))], force=True)
    for night in sky.sources["sources"].values():
        for key in [key for key, (of, _) in night.items() if of == 3]:
            del night[key]
    sky.bring_sources("sources", 3, [3, 4, 4])
    sky.assert_holds("sources")
    assert sky.lake.open("sources").metadata.mark_of("object_id").objects.gone is None


def test_a_vacuum_keeps_the_list_of_what_is_gone(tmp_path: Path) -> None:
    sky = a_sky(tmp_path)
    sky.bring_objects(0, dict.fromkeys(range(10), 0))
    sky.bring_sources("sources", 0, [1, 2, 3])
    sky.delete_objects([3])
    sky.bring_sources("sources", 1, [1])
    sky.bring_sources("sources", 2, [2])  # names the list of the night before
    for name in ("sources", "objects"):
        sky.lake.open(name).vacuum(keep_versions=1, keep_days=0, dry_run=False)
    sky.assert_holds("sources")
    sky.bring_objects(1, {3: 1})
    with pytest.raises(SpecError, match=ELSEWHERE):
        sky.bring_sources("sources", 3, [1])
    sources = sky.lake.open("sources")
    Path(sources.uri, sources.metadata.mark_of("object_id").objects.gone.path).unlink()
    assert ProblemKind.MISSING_FILE in {problem.kind for problem in sources.verify().problems}


def test_a_version_of_the_objects_that_was_vacuumed_is_made_up_for_by_all_rows(tmp_path: Path) -> None:
    for name, at in (("here", 0), ("elsewhere", 1)):
        (tmp_path / name).mkdir()
        sky = a_sky(tmp_path / name)
        sky.bring_objects(0, dict.fromkeys(range(10), 0))
        sky.bring_sources("sources", 0, [1, 2, 3])
        sky.delete_objects([2, 3])
        sky.bring_objects(1, {3: at})
        sky.lake.open("objects").vacuum(keep_versions=1, keep_days=0, dry_run=False)
        sky.assert_joins("sources")
        if at:
            with pytest.raises(SpecError, match=ELSEWHERE):
                sky.bring_sources("sources", 1, [1])
            continue
        sky.bring_sources("sources", 1, [1, 3])
        sky.assert_holds("sources")
        assert sky.lake.open("sources").metadata.mark_of("object_id").objects.gone.rows == 1


@pytest.mark.parametrize("at", [0, 1])
def test_sources_that_newer_ones_beat_count_as_they_may_come_back(tmp_path: Path, at: int) -> None:
    sky = a_sky(tmp_path)
    sky.sources_spec |= {"mode": "upsert", "key": "source_id"}
    sky.bring_objects(0, dict.fromkeys(range(10), 0))
    sky.bring_sources("sources", 0, [1, 2])
    sky.next_source = 0
    sky.bring_sources("sources", 1, [5])  # the source of object 1 is now one of object 5
    expected = [(0, sky.id_of(5), pixel(5, 0)), (1, sky.id_of(2), pixel(2, 0))]
    assert plain_rows(sky.lake.open("sources")) == expected
    sky.delete_objects([1])
    sky.bring_objects(1, {1: at})
    sky.next_source = 7
    if at:
        with pytest.raises(SpecError, match=ELSEWHERE):
            sky.bring_sources("sources", 1, [5])
        return
    sky.bring_sources("sources", 1, [5])  # without that source, so that it is one of object 1 again
    sky.assert_holds("sources")


@pytest.mark.parametrize("of", [[3, 4], [4]], ids=["of the object that moved", "of another one"])
def test_a_night_that_was_placed_before_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: list[int]
) -> None:
    """What was compared holds for the rows of one version only, where an object has come elsewhere."""
    sky = a_sky(tmp_path)
    sky.bring_objects(0, dict.fromkeys(range(10), 0))
    sky.bring_sources("sources", 0, [1, 2])
    late, rows = sky.counted_sources("sources", 1, of)
    sky.delete_objects([3])
    sky.bring_objects(1, {3: 1})
    sky.sources["sources"][1] = rows
    before_the_first_commit(monkeypatch, append_run, lambda: in_process.append(late))
    if 3 in of:
        with pytest.raises(SpecError, match=ELSEWHERE):
            sky.bring_sources("sources", 2, [3, 5])
    else:
        sky.bring_sources("sources", 2, [3, 5])
    sky.assert_holds("sources")
