"""Sources are given to other objects: they go to the pixel of these, and light curves follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hipslake
import numpy as np
import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.sphere.pixels import order29

from tests.steps.join.living import published_twice
from tests.steps.margins import assert_margins_are_exact
from tests.steps.sources_of_objects import KINDS, objects_table, sources_table

TWO_GROUPS = [{"name": "main", "columns": ["source_id", "ra", "dec"]}, {"name": "light", "columns": "*"}]


class Sky:
    """Objects and their sources by nights, and what the sources must be: a dict by `source_id`."""

    def __init__(self, place: Path, kind: str, **spec: Any) -> None:
        self.warehouse = place / "warehouse"
        self.objects = objects_table(rows=300, kind=kind)
        given: dict[str, Any] = {"position": {"ra": "ra", "dec": "dec"}, "threshold": "40 rows"}
        given |= {"layout": spec.get("layout", "hats")}
        marked = {"name": "objects", "mode": "append", "co_partitioned": ["id"], "index": ["id"]}
        self._ingest(self.objects, 1, given | marked)
        placed = {"position_from": {"catalog": "objects", "on": {"object_id": "id"}}}
        self.spec = given | {"name": "sources", "mode": "upsert", "key": "source_id"} | placed | spec
        self.rows: dict[int, dict[str, Any]] = {}
        pixels = order29(self.objects["ra"], self.objects["dec"])
        self.pixels = dict(zip(self.objects["id"].to_pylist(), pixels.tolist(), strict=True))

    def _ingest(self, rows: pa.Table, day: int, spec: dict[str, Any]) -> Catalog:
        return hipslake.ingest(
            rows, spec=spec, warehouse=self.warehouse, interval=f"2026-11-{day:02d}", spark=False
        )

    def night(self, day: int, rows: pa.Table) -> None:
        """A night whose records win."""
        self._ingest(rows, day, self.spec)
        self.rows |= {row["source_id"]: row for row in rows.to_pylist()}

    @property
    def sources(self) -> Catalog:
        return Catalog.open(self.warehouse / "catalogs" / "sources")

    def look(self) -> None:
        """Hold the rows, and where they lie, against the dict; and look at everything else."""
        catalog = self.sources
        catalog.verify().raise_if_failed()
        read = catalog.read().sort_by("source_id")
        expected = [self.rows[key] for key in sorted(self.rows)]
        names = list(expected[0])
        assert read.select(names).to_pylist() == expected
        assert read["_healpix_29"].to_pylist() == [self.pixels[row["object_id"]] for row in expected]
        if catalog.metadata.margins:
            assert_margins_are_exact(catalog)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"layout": "hipscat", "order_by": "time"},
        {"append": "add_file", "column_groups": TWO_GROUPS, "order_by": "time", "index": ["object_id"]},
        {"layout": "hipscat", "append": "add_file", "column_groups": TWO_GROUPS},
    ],
    ids=["hats", "hipscat by order", "add_file in two groups by order", "hipscat add_file in two groups"],
)
def test_sources_go_to_their_new_objects(tmp_path: Path, spec: dict[str, Any], kind: str) -> None:
    sky = Sky(tmp_path, kind, **spec)
    rng = np.random.default_rng(7)
    first = sources_table(sky.objects, rows=400)
    sky.night(1, first.slice(0, 300))
    sky.night(2, first.slice(300))
    ids = sky.objects["id"].to_pylist()
    sky.look()
    for step in range(3):
        before: CatalogMetadata = sky.sources.metadata
        if step % 2:
            held = sorted({row["object_id"] for row in sky.rows.values()} & set(ids))
            one, other = rng.choice(held, 2, replace=False).tolist()
            text = f"'{one}'" if isinstance(one, str) else str(one)
            sky.sources.reassign(filters=f"object_id = {text}", to=other, force=True)
            new = {key: other for key, row in sky.rows.items() if row["object_id"] == one}
        else:
            keys = rng.choice(sorted(sky.rows), 30, replace=False).tolist()
            new = dict(zip(keys, rng.choice(ids, 30).tolist(), strict=True))
            sky.sources.reassign(list(new.items()), force=True)
        moved = {key for key, name in new.items() if sky.rows[key]["object_id"] != name}
        for key in moved:
            sky.rows[key] = sky.rows[key] | {"object_id": new[key]}
        sky.look()
        after = sky.sources.metadata
        assert after.reassignments is not None
        assert after.reassignments[-1].rows == len(moved)
        assert after.total_rows == before.total_rows
        assert after.spec == before.spec
        changes = sky.sources.changes(before.version).counts()
        assert (changes["update_before"], changes["update_after"]) == (len(moved), len(moved))
        assert changes["insert"] == changes["delete"] == 0
    sky.sources.verify(all=True).raise_if_failed()


def test_a_night_again_does_not_take_it_back_and_a_later_one_does(tmp_path: Path) -> None:
    sky = Sky(tmp_path, "integers")
    first = sources_table(sky.objects, rows=200)
    sky.night(3, first)
    one, other = sky.objects["id"].to_pylist()[:2]
    keys = sorted(sky.rows)[:5]
    sky.sources.reassign(keys, one, force=True)
    for key in keys:
        sky.rows[key] = sky.rows[key] | {"object_id": one}
    sky.look()
    held = dict(sky.rows)
    flux = first.set_column(first.schema.get_field_index("flux"), "flux", pa.array(np.arange(200.0)))
    sky.night(3, flux)  # the same night again, with other values
    sky.rows |= {key: held[key] for key in keys}
    sky.look()
    sky.night(2, flux.filter(pa.compute.is_in(flux["source_id"], pa.array(keys))))  # one that comes late
    sky.rows |= {key: held[key] for key in keys}
    sky.look()
    later = [sky.rows[key] | {"object_id": other} for key in keys[:2]]
    sky.night(4, pa.Table.from_pylist(later, first.schema))
    sky.look()
    sky.sources.delete(keys=keys[2:3], force=True)  # which is newer than what it corrects
    gone = sky.rows.pop(keys[2])
    sky.look()
    sky.night(3, first)
    sky.rows.pop(gone["source_id"])
    sky.rows |= {key: held[key] for key in keys[3:]}
    sky.rows |= {row["source_id"]: row for row in later}
    sky.look()


def test_reassigned_twice_and_rolled_back(tmp_path: Path) -> None:
    sky = Sky(tmp_path, "integers", order_by="time", threshold="150 rows", margin={"arcsec": [3600]})
    sky.night(1, sources_table(sky.objects, rows=100))
    version = sky.sources.version
    ids = sky.objects["id"].to_pylist()
    held = dict(sky.rows)
    for name in ids[:3]:
        sky.sources.reassign(region="box ra 0..360 dec -90..90", to=name, force=True)
        sky.rows = {key: row | {"object_id": name} for key, row in sky.rows.items()}
        sky.look()
    again = sky.sources.reassign(region="box ra 0..360 dec -90..90", to=ids[2], force=True)
    assert again.version == version + 3
    sky.sources.rollback(version)
    sky.rows = held
    sky.look()
    sky.sources.reassign(filters="source_id < 10", to=ids[9], force=True)
    sky.rows = {key: row | ({"object_id": ids[9]} if key < 10 else {}) for key, row in held.items()}
    sky.look()


def test_light_curves_follow(tmp_path: Path) -> None:
    sky = Sky(tmp_path, "integers")
    sky.night(1, sources_table(sky.objects, rows=2000))
    spec = {
        "type": "equijoin",
        "left": {"catalog": "objects"},
        "right": {"catalog": "sources", "columns": ["source_id", "time"]},
        "on": {"id": "object_id"},
        "nested": {"time": "time"},
    }
    published_twice(sky.warehouse, spec)
    one, other = sky.objects["id"].to_pylist()[10:12]
    sky.sources.reassign(filters=f"object_id = {one}", to=other, force=True)
    sky.rows = {
        key: row | ({"object_id": other} if row["object_id"] == one else {}) for key, row in sky.rows.items()
    }
    report = published_twice(sky.warehouse, spec)  # one goes on, and one is made anew: to the byte the same
    assert report.full_because is None
    expected: dict[int, list[int]] = {name: [] for name in sky.objects["id"].to_pylist()}
    for key, row in sky.rows.items():
        expected[row["object_id"]].append(key)
    read = Catalog.open(sky.warehouse / "catalogs" / "living").read()
    found = {
        row["id"]: sorted(row["sources"]["source_id"]) for row in read.select(["id", "sources"]).to_pylist()
    }
    assert found == {name: sorted(keys) for name, keys in expected.items()}
    assert found[one] == []
