"""Which columns of which groups a read needs."""

from __future__ import annotations

from hipslake.catalog.selection import select
from hipslake.sphere.regions import Cone

from tests.catalog.publishing import Published


def test_as_few_groups_as_will_do_are_read(grouped: Published) -> None:
    metadata = grouped.metadata
    assert select(metadata, ["id"]).columns == {"main": ["id"]}
    assert select(metadata, ["mag"]).columns == {"details": ["mag"]}
    assert select(metadata, ["_healpix_29", "mag"]).columns == {"details": ["_healpix_29", "mag"]}
    assert select(metadata, ["_healpix_29"]).columns == {"main": ["_healpix_29"]}
    assert select(metadata, ["_row", "mag", "id"]).columns == {"main": ["_row", "id"], "details": ["mag"]}
    assert select(metadata, [], [("note", "=", "x")]).columns == {"details": ["note"]}


def test_the_position_is_read_for_a_region(single: Published) -> None:
    cone = Cone(0, 0, 1)
    assert select(single.metadata, ["id"], region=cone).columns == {"main": ["id", "ra", "dec"]}
    assert select(single.metadata, ["ra"], region=cone).cut_only == {"dec"}


def test_the_position_comes_from_a_group_that_has_it(grouped: Published) -> None:
    cone = Cone(0, 0, 1)
    found = select(grouped.metadata, ["mag"], region=cone)
    assert found.columns == {"details": ["mag"], "main": ["ra", "dec"]}
    assert found.cut_only == {"ra", "dec"}
    assert found.schema.names == ["mag"]
    alone = select(grouped.metadata, ["_healpix_29"], group="details", region=cone)
    assert alone.columns["main"] == ["ra", "dec"]
