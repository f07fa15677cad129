"""Rows that are made while they are read: the same however they are cut, and judged by the right measures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from astropy import units
from astropy.coordinates import SkyCoord
from hipslake.sources import formats, open_source
from hipslake.specs.source_spec import SourceSpec

from benchmarks import made_rows, scale
from benchmarks.made_rows import BLOCK_ROWS, FILE_ROWS, SCHEMA, Stretch, block, lay_out


def places(batch: pa.RecordBatch) -> SkyCoord:
    return SkyCoord(batch["ra"].to_numpy() * units.deg, batch["dec"].to_numpy() * units.deg)


def test_a_block_is_the_same_every_time_and_unlike_the_others() -> None:
    assert block(3).equals(block(3))
    assert not np.isin(block(3)["ra"].to_numpy(), block(4)["ra"].to_numpy()).any()
    assert block(3)["id"].to_pylist() == list(range(3 * BLOCK_ROWS, 4 * BLOCK_ROWS))


def test_positions_are_on_the_sky_and_many_lie_near_the_galactic_plane() -> None:
    made = block(0)
    ra, dec = made["ra"].to_numpy(), made["dec"].to_numpy()
    assert ra.min() >= 0
    assert ra.max() < 360
    assert np.abs(dec).max() <= 90
    near = np.abs(places(made).galactic.b.deg) < 10
    assert 0.4 < near.mean() < 0.7  # a uniform sky would have 0.17


def test_companions_lie_within_half_an_arcsecond_of_their_rows() -> None:
    apart = places(block(5)).separation(places(block(5, companions=True))).arcsec
    assert 0.45 < apart.max() < 0.5001
    assert block(5, companions=True)["id"].equals(block(5)["id"])


@pytest.mark.parametrize("target_bytes", [1, 12 << 20, 1 << 30])
def test_files_read_as_the_rows_that_they_stand_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target_bytes: int
) -> None:
    monkeypatch.setitem(formats.READERS, made_rows.FORMAT, formats.READERS[made_rows.FORMAT])
    made_rows.register()
    lay_out(tmp_path / "landing", Stretch(2 * FILE_ROWS, 2 * FILE_ROWS))
    assert sum(path.stat().st_blocks for path in tmp_path.rglob("*.made")) * 512 < 1 << 20
    source = open_source(
        SourceSpec.model_validate({"uri": f"{tmp_path}/landing/*.made", "format": "parquet"})
    )
    files = source.list_files()
    assert [file.size for file in files] == [FILE_ROWS * made_rows.ROW_BYTES] * 2
    splits = source.splits(files, target_bytes)
    read = pa.Table.from_batches(
        [batch for split in splits for batch in source.read(split, SCHEMA, ["id", "dec"], batch_rows=70_000)]
    )
    first = 2 * FILE_ROWS // BLOCK_ROWS
    made = pa.Table.from_batches([block(first + number) for number in range(2 * FILE_ROWS // BLOCK_ROWS)])
    assert read.equals(made.select(["id", "dec"]))
    assert max(map(len, read["id"].chunks)) <= 70_000


def test_rows_of_the_cone_are_those_that_astropy_finds() -> None:
    centre = SkyCoord(scale.CONE["ra"] * units.deg, scale.CONE["dec"] * units.deg)
    made = block(7)
    inside = places(made).separation(centre).deg <= scale.CONE["radius"]
    assert inside.sum() > 100
    assert scale.in_cone(7) == (inside.sum(), made["id"].to_numpy()[inside].sum())


def run(size: int, task: str, seconds: float = 1.0, peak: float = 1.0) -> scale.Run:
    return {"size": size, "task": task, "seconds": seconds, "peak_bytes": peak * 2**30}


def test_the_pace_is_held_to_the_median_of_the_small_runs_and_the_peak_to_all_tasks() -> None:
    small = [run(20, "ingest", seconds) for seconds in (1.0, 2.0, 9.0)]
    assert [each.passed for each in scale.verdicts([*small, run(200, "ingest", 22.9)])] == [True, True, True]
    slow = scale.verdicts([*small, run(200, "ingest", 23.1), run(200, "match", peak=4.1)])
    assert [each.passed for each in slow] == [False, True, False]
    assert slow[0].measured == pytest.approx(1.155)


def test_what_runs_tell_is_held_against_what_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, cone = (FILE_ROWS, FILE_ROWS * (FILE_ROWS - 1) // 2, 7), (5, 9)
    monkeypatch.setattr(scale, "expected_of", lambda rows: {"keys": keys, "cone": cone})

    def told(**wrong: dict[str, int]) -> list[scale.Run]:
        right: dict[str, dict[str, int]] = {
            "ingest": {"rows": FILE_ROWS},
            "keys": {"rows": keys[0], "sum": keys[1], "squares": 7},
            "verify": {"problems": 0},
            "night": {"rows": FILE_ROWS + scale.NIGHT_ROWS},
            "cone": {"rows": 5, "sum": 9},
            "companions": {"rows": FILE_ROWS},
            "match": {"rows": FILE_ROWS + 3, "own": FILE_ROWS - 3},
        }
        return [{"task": task, **values, **wrong.get(task, {})} for task, values in right.items()]

    scale.check(told(), FILE_ROWS)
    for wrong in (
        {"ingest": {"rows": FILE_ROWS - 1}},
        {"keys": {"squares": 8}},
        {"verify": {"problems": 1}},
        {"night": {"rows": FILE_ROWS}},
        {"cone": {"sum": 10}},
        {"match": {"rows": FILE_ROWS - 1}},
        {"match": {"own": FILE_ROWS // 2}},
    ):
        with pytest.raises(SystemExit):
            scale.check(told(**wrong), FILE_ROWS)


def test_keys_that_are_expected_are_those_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "NIGHT_ROWS", 0)
    ids = np.arange(FILE_ROWS, dtype=np.uint64)
    with np.errstate(over="ignore"):
        squares = int((ids * ids).sum())
    assert scale.expected_of(FILE_ROWS)["keys"] == (FILE_ROWS, int(ids.sum()), squares)
