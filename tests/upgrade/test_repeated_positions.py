"""Nights in radians whose groups all repeat the source's positions, as they once did, and later nights."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hipslake import Catalog

from tests.steps.margins import assert_margins_are_exact
from tests.upgrade.made_by.repeated_positions import GROUPS, Radians, night
from tests.upgrade.unpacked import unpacked


def columns_of(catalog: Catalog) -> dict[str, list[str]]:
    return {group.name: group.to_arrow().names for group in catalog.metadata.groups}


def holds(catalog: Catalog, nights: list[pa.Table]) -> None:
    catalog.verify().raise_if_failed()
    stored = [name for name in nights[0].column_names if name in catalog.schema.names]
    rows = catalog.read().select(stored).sort_by("id").combine_chunks()
    assert rows.equals(pa.concat_tables(nights).select(stored).sort_by("id").combine_chunks())
    assert {"id", "ra", "dec"} <= set(stored)
    for group in catalog.metadata.groups:  # the position of every row, from every group that has it
        alone = catalog.read(group=group.name).sort_by("_row")
        for name in {"ra", "dec", "ra_icrs", "dec_icrs"} & set(alone.column_names):
            assert alone[name].null_count == 0
            assert alone[name].equals(catalog.read().sort_by("_row")[name])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", list(GROUPS))
def test_nights_that_come_to_a_catalog_have_its_columns(tmp_path: Path, name: str) -> None:
    survey = Radians(unpacked("repeated_positions", tmp_path), name)
    told = survey.catalog.verify().problems  # then, `current` led to the newest write, and so to a part
    assert {problem.path for problem in told} == {"current", "current.txt"}
    survey.catalog.repair(dry_run=False)
    before = columns_of(survey.catalog)
    assert all({"ra", "dec", "ra_icrs", "dec_icrs"} <= set(names) for names in before.values())
    holds(survey.catalog, [night(0), night(1)])
    survey.catalog.build_margin(3600)
    survey.spec_text += "margin: {arcsec: [3600]}\n"
    survey.land(2, night(2))
    survey.append(2)
    survey.land(1, night(1).slice(0, 20))
    survey.append(1)
    assert columns_of(survey.catalog) == before
    holds(survey.catalog, [night(0), night(1).slice(0, 20), night(2)])
    assert_margins_are_exact(survey.catalog)
    holds(survey.catalog.rollback(2), [night(0), night(1)])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", list(GROUPS))
def test_a_catalog_that_begins_now_has_them_once(tmp_path: Path, name: str) -> None:
    survey = Radians(tmp_path, name)
    for number in range(2):
        survey.land(number, night(number))
        survey.append(number)
    columns = columns_of(survey.catalog)
    home = "details" if name == "further" else "main"
    assert [group for group, names in columns.items() if {"ra", "dec"} & set(names)] == [home]
    assert all({"ra_icrs", "dec_icrs"} <= set(names) for names in columns.values())
    holds(survey.catalog, [night(0), night(1)])
    survey.catalog.build_margin(3600)
    assert_margins_are_exact(survey.catalog)
