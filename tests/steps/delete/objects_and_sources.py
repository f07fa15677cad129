"""Objects that are deleted and come back, their sources, and what each catalog must hold, in plain Python."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.errors import CoPartitionError
from hipslake.sphere.pixels import order29
from hipslake.steps.run import RunFolder, Window

from tests.steps import in_process
from tests.steps.sources_of_objects import KINDS, Lake, by_objects

FIRST = datetime(2026, 10, 1, tzinfo=UTC)
OBJECTS, PLACES, NIGHTS = 30, 3, 4
ELSEWHERE = "at another place"


def place(number: int, at: int) -> tuple[float, float]:
    """One of the places where an object may be: half of them are near each other."""
    rng = np.random.default_rng([number, at])
    if number % 2:
        return float(rng.uniform(80, 81)), float(rng.uniform(20, 21))
    return float(rng.uniform(0, 360)), float(rng.uniform(-80, 80))


def pixel(number: int, at: int) -> int:
    return int(order29(*(np.array([each]) for each in place(number, at)))[0])


@dataclass
class Sky:
    """Objects and two catalogs of sources, and what each must hold: numbers of objects, and of their places.

    Attributes
    ----------
    objects : dict of int to dict of int to int
        By night, the place of each object that it brought.
    gone : set of (int, int)
        Each object that was deleted, and the night that its row was of.
    versions : dict of int to (objects, gone)
        The same, as it was in each version of the objects.
    sources : dict of str to dict of int to dict of int to (int, int)
        By catalog and night, the object of each source and the place where that was.
    """

    lake: Lake
    objects_spec: dict[str, Any]
    sources_spec: dict[str, Any]
    kind: str
    objects: dict[int, dict[int, int]] = field(default_factory=dict)
    gone: set[tuple[int, int]] = field(default_factory=set)
    sources: dict[str, dict[int, dict[int, tuple[int, int]]]] = field(default_factory=dict)
    versions: dict[int, Any] = field(default_factory=dict)
    next_source: int = 0

    @property
    def of_nights(self) -> dict[int, int]:
        """The night that the row of each object is of, by the definition: the latest, if it is not gone."""
        brought = [(each, night) for night in sorted(self.objects) for each in self.objects[night]]
        if self.objects_spec["mode"] == "append":
            return {each: night for each, night in brought if (each, night) not in self.gone}
        last = dict(brought)
        beaten = {each: max(night for other, night in self.gone if other == each) for each, _ in self.gone}
        return {each: night for each, night in last.items() if beaten.get(each, -1) < night}

    @property
    def now(self) -> dict[int, int]:
        """The place of each object."""
        return {number: self.objects[night][number] for number, night in self.of_nights.items()}

    def id_of(self, number: int) -> Any:
        return KINDS[self.kind](np.array([number]))[0].as_py()

    def rows(self, name: str) -> dict[int, tuple[int, int]]:
        return {key: each for night in self.sources.get(name, {}).values() for key, each in night.items()}

    def fits(self, name: str) -> bool:
        """Whether no object is elsewhere than sources that a catalog has of it."""
        now = self.now
        return all(now.get(number, at) == at for number, at in self.rows(name).values())

    def counted(self, name: str, number: int, table: pa.Table, spec: dict[str, Any]) -> RunFolder:
        """Land a night of a catalog and count it: all that is to come is the append."""
        start = FIRST + timedelta(days=number)
        self.lake.land(f"{name}/{start:%Y-%m-%d}", table, files=1)
        source = {"uri": f"{self.lake.place}/landing/{name}/{{{{ night }}}}/*.parquet", "format": "parquet"}
        window = Window(start=start, end=start + timedelta(days=1), origin="data_interval")
        folder = self.lake.start(name, window=window, source=source, **spec)
        in_process.freeze(folder)
        in_process.count(folder)
        return folder

    def bring_objects(self, number: int, objects: dict[int, int]) -> None:
        """A night of objects; those of the same night before go."""
        ra, dec = (np.array([place(*each)[axis] for each in objects.items()]) for axis in (0, 1))
        ids = KINDS[self.kind](np.array(list(objects), np.int64))
        table = pa.table({"id": ids, "ra": ra, "dec": dec})
        in_process.append(self.counted("objects", number, table, self.objects_spec))
        self.objects[number] = dict(objects)
        if self.objects_spec["mode"] == "append":
            self.gone = {each for each in self.gone if each[1] != number}
        self.note()

    def delete_objects(self, numbers: list[int]) -> None:
        ids = [self.id_of(number) for number in numbers]
        self.lake.open("objects").delete(filters=[("id", "in", ids)], force=True)
        nights = self.of_nights
        self.gone |= {(number, nights[number]) for number in numbers if number in nights}
        self.note()

    def roll_back(self, version: int) -> None:
        self.lake.open("objects").rollback(version)
        self.objects, self.gone = copy.deepcopy(self.versions[version])
        self.note()

    def note(self) -> None:
        self.versions[self.lake.open("objects").version] = copy.deepcopy((self.objects, self.gone))

    def compact(self) -> None:
        source = {"uri": f"{self.lake.place}/landing/objects/{{{{ night }}}}/*.parquet", "format": "parquet"}
        in_process.compact(self.lake.start("objects", source=source, **self.objects_spec), min_files=2)
        self.note()

    def bring_sources(self, name: str, number: int, of: list[int]) -> None:
        """A night of sources of some objects, all of which are there."""
        folder, night = self.counted_sources(name, number, of)
        in_process.append(folder)
        self.sources.setdefault(name, {})[number] = night

    def counted_sources(
        self, name: str, number: int, of: list[int]
    ) -> tuple[RunFolder, dict[int, tuple[int, int]]]:
        """A night that is counted, and what it brings."""
        keys = np.arange(self.next_source, self.next_source + len(of))
        self.next_source += len(of)
        rng = np.random.default_rng(self.next_source)
        table = pa.table(
            {
                "source_id": keys,
                "object_id": KINDS[self.kind](np.array(of, np.int64)),
                "ra": rng.uniform(0, 360, len(of)),
                "dec": rng.uniform(-80, 80, len(of)),
            }
        )
        folder, now = self.counted(name, number, table, self.sources_spec), self.now
        return folder, {key: (each, now[each]) for key, each in zip(keys.tolist(), of, strict=True)}

    def assert_holds(self, name: str) -> None:
        """Hold the leaf files of a catalog of sources against what must be there, and its join by marks."""
        rows = self.rows(name)
        catalog = self.lake.open(name)
        catalog.verify().raise_if_failed()
        expected = sorted((key, self.id_of(of), pixel(of, at)) for key, (of, at) in rows.items())
        assert plain_rows(catalog) == expected
        self.assert_joins(name)

    def assert_joins(self, name: str) -> None:
        """Join the objects with a catalog of sources: all pairs are found, or it is refused."""
        objects, sources = self.lake.open("objects"), self.lake.open(name)
        if not self.fits(name):
            with pytest.raises(CoPartitionError, match=ELSEWHERE):
                joined(objects, sources)
            return
        now = self.now
        expected = sorted((self.id_of(of), key) for key, (of, _) in self.rows(name).items() if of in now)
        assert joined(objects, sources) == expected

    def assert_join_of_sources(self) -> None:
        """Join both catalogs of sources."""
        left, right = (self.rows(name) for name in NAMES)
        places = dict(right.values())
        apart = any(places.get(of, at) != at for of, at in left.values())
        try:
            found = joined(*(self.lake.open(name) for name in NAMES), on=("object_id", "object_id"))
        except CoPartitionError:
            assert apart or not all(self.fits(name) for name in NAMES)
            return
        assert not apart
        pairs = [(of, key) for of, _ in left.values() for key, (other, _) in right.items() if of == other]
        assert found == sorted((self.id_of(of), key) for of, key in pairs)


COLUMNS = ["source_id", "object_id", "_healpix_29"]
NAMES = ("sources", "others")


def plain_rows(catalog: Catalog) -> list[tuple[Any, ...]]:
    """The rows of the leaf files, as pyarrow alone reads them."""
    columns: dict[str, list[Any]] = {}
    for group in catalog.metadata.groups:
        paths = group.table(catalog.storage)["path"].to_pylist()
        tables = [pq.ParquetFile(f"{catalog.uri}/{path}").read() for path in paths]
        if not tables:
            return []
        table = pa.concat_tables(tables).sort_by("_row")
        columns |= {name: table[name].to_pylist() for name in table.column_names}
    return sorted(zip(*(columns[name] for name in COLUMNS), strict=True))


def joined(left: Catalog, right: Catalog, on: tuple[str, str] = ("id", "object_id")) -> list[tuple[Any, int]]:
    table = left.join(right, on=on, columns=[on[0]], other_columns=["source_id"])
    return sorted(zip(table[on[0]].to_pylist(), table["source_id"].to_pylist(), strict=True))


def a_sky(place: Path, layout: str = "hats", mode: str = "append", kind: str = "integers") -> Sky:
    """Nothing yet; in layout hats, files of nights lie beside each other, and in the other in two groups."""
    objects = {"mode": mode, "co_partitioned": ["id"], "layout": layout}
    objects |= {"key": "id"} if mode == "upsert" else {}
    sources = {"mode": "append", "position_from": by_objects(), "layout": layout}
    for spec in (objects, sources):
        if layout == "hats":
            spec |= {"append": "add_file", "threshold": "12 rows"}
        else:
            main = {"name": "main", "columns": ["ra", "dec"], "threshold": "20 rows"}
            spec["column_groups"] = [main, {"name": "rest", "columns": "*", "threshold": "9 rows"}]
    return Sky(Lake(place), objects, sources, kind)
