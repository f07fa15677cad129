"""Nights of which the newest row of each object stays: added, replaced, compacted, and set aside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hipslake.catalog.metadata import increments

from tests.steps.nights import Survey, night_rows

NEWEST = "newest: {key: id, order: mag}"


def seen_again(number: int, rows: int = 300, seed: int = 0) -> pa.Table:
    """A night that sees each object some times; no two magnitudes are the same."""
    table = night_rows(number, rows, seed)
    ids = np.random.default_rng([number, seed, 1]).integers(0, rows // 3, rows)
    return table.set_column(0, "id", pa.array(ids))


def newest(table: pa.Table) -> pa.Table:
    """Of each object the row with the greatest magnitude, by a loop over rows."""
    best: dict[int, int] = {}
    for at, (key, mag) in enumerate(zip(table["id"].to_pylist(), table["mag"].to_pylist(), strict=True)):
        if key not in best or mag > table["mag"][best[key]].as_py():
            best[key] = at
    return table.take(pa.array(sorted(best.values())))


def check(survey: Survey) -> None:
    catalog = survey.catalog
    catalog.verify().raise_if_failed()
    keys = [(name, "ascending") for name in ("night", "id")]
    found = catalog.read().select(["id", "ra", "dec", "mag", "night"]).sort_by(keys).combine_chunks()
    expected = pa.concat_tables([newest(survey.landed[number]) for number in survey.landed])
    assert found.equals(expected.sort_by(keys).combine_chunks())
    landed = sum(table.num_rows for table in survey.landed.values())
    metadata = catalog.metadata
    assert metadata.rows_read == landed == metadata.total_rows + metadata.rows_superseded


@pytest.mark.sampled(2)
@pytest.mark.parametrize("append", ["rewrite", "add_file"])
def test_an_object_stands_once_a_night(tmp_path: Path, append: str) -> None:
    survey = Survey(tmp_path, more=f"append: {append}\n{NEWEST}\nmargin: {{arcsec: [3600]}}")
    for seed, night in enumerate((0, 2, 1, 0)):
        survey.land(night, seen_again(night, seed=seed), files=3)
        report = survey.append(night)
        assert report.rows_superseded == 300 - newest(survey.landed[night]).num_rows > 0
        check(survey)
    if append == "add_file":
        survey.compact(min_files=2)
        check(survey)
    assert {increment.superseded for increment in survey.catalog.increments} - {None}


def test_what_was_superseded_is_known_of_nights_that_are_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hipslake.steps.ingest.draft.MOST_LISTED", 2)
    monkeypatch.setattr("hipslake.steps.ingest.draft.LISTED_AGAIN", 1)
    plain = Survey(tmp_path)
    for night in range(4):
        plain.night(night, rows=30)
    aside = plain.catalog.metadata.earlier
    assert aside is not None
    assert "rows_superseded" not in aside.model_dump(exclude_none=True)
    assert "superseded" not in aside.table_schema.names  # so that older libraries read it
    plain.more = NEWEST
    for night in range(4, 8):
        plain.land(night, seen_again(night, rows=60))
        plain.append(night)
    metadata = plain.catalog.metadata
    assert metadata.earlier is not None
    of_no_upsert = [field for field in increments.INCREMENT_SCHEMA if field.name != "changes"]
    assert metadata.earlier.table_schema.equals(pa.schema(of_no_upsert))
    found = metadata.all_increments(plain.catalog.storage)
    expected = [60 - newest(plain.landed[night]).num_rows for night in range(4, 8)]
    assert [each.superseded or 0 for each in found] == [0, 0, 0, 0, *expected]
    assert metadata.rows_superseded == sum(expected)
    plain.catalog.verify().raise_if_failed()
    assert pc.sum(metadata.partitions(None, plain.catalog.storage)["rows"]).as_py() == metadata.total_rows
