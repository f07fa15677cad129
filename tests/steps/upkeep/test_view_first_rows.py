"""The thumbnail of a version that goes on from another has from it the first rows of leaves that stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.catalog.hats import view_files
from hipslake.catalog.hats.view_files import write_hats_group
from hipslake.specs.catalog_spec import Unchanged
from hipslake.steps.upkeep.hats_view import point_map_of, show_newest

from tests.steps.nights import Survey


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The leaf files of which the first row is read."""
    paths: list[str] = []
    plain = view_files.read_first_row

    def noted(storage: Any, path: str, size: int, pool: Any) -> Any:
        paths.append(path)
        return plain(storage, path, size, pool)

    monkeypatch.setattr(view_files, "read_first_row", noted)
    return paths


def thumbnail(survey: Survey) -> Path:
    return survey.root / survey.catalog.metadata.write_id / "main" / "data_thumbnail.parquet"


def made_anew(survey: Survey) -> bytes:
    """The thumbnail of the newest version, by its leaf files alone."""
    catalog = survey.catalog
    storage, metadata = catalog.storage, catalog.metadata
    write_hats_group(storage, metadata, "main", point_map_of(storage, metadata, None))
    return thumbnail(survey).read_bytes()


def shown(survey: Survey) -> bytes:
    show_newest(survey.catalog.storage, Unchanged.LINK)
    return thumbnail(survey).read_bytes()


def test_first_rows_of_leaves_that_stay_are_not_read(tmp_path: Path, read: list[str]) -> None:
    survey = Survey(tmp_path, threshold="40 rows")
    survey.night(0)
    shown(survey)
    for night in (1, 2):
        survey.night(night, rows=12)
        read.clear()
        found, own = shown(survey), survey.catalog.metadata.write_id
        assert read
        assert all(path.startswith(f"{own}/") for path in read)
        files = survey.catalog.metadata.partitions(None, survey.catalog.storage)
        assert len(read) < files.num_rows == pq.read_table(pa.BufferReader(found)).num_rows
        assert found == made_anew(survey)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("what", ["rows of others", "no thumbnail", "no list"])
def test_a_thumbnail_that_is_not_what_was_written_is_not_believed(
    tmp_path: Path, read: list[str], what: str
) -> None:
    survey = Survey(tmp_path)
    survey.night(0)
    shown(survey)
    path = thumbnail(survey)
    if what == "rows of others":
        table = pq.read_table(path)
        pq.write_table(table.set_column(1, table.schema.field(1), table[1].take([0] * len(table))), path)
    elif what == "no thumbnail":
        path.unlink()
    else:
        (path.parent / "SHA256SUMS").unlink()
    survey.night(1)
    read.clear()
    found = shown(survey)
    assert len(read) == pq.read_table(pa.BufferReader(found)).num_rows
    assert found == made_anew(survey)
