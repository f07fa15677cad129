"""A warehouse with a survey that grew by nights, and a catalog of references; and the command line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import hipslake
import numpy as np
import pyarrow as pa
import pytest
from hipslake.cli.main import main

POSITION = {"position": {"ra": "ra", "dec": "dec"}, "mapping_order": 5}


class Answer(NamedTuple):
    """What a command has printed, and its exit code."""

    code: int
    out: str
    err: str


Command = Callable[..., Answer]


def night(number: int, rows: int = 400) -> pa.Table:
    """Stars with gaps, texts with commas and quotes, and values that are no numbers."""
    rng = np.random.default_rng(number)
    mag = rng.normal(15, 2, rows)
    mag[rng.random(rows) < 0.05] = np.nan
    names = np.array(["plain", 'with "quotes"', "with, comma", "", "Ünïcode"])[rng.integers(0, 5, rows)]
    return pa.table(
        {
            "id": number * 10_000 + np.arange(rows),
            "ra": rng.uniform(0, 60, rows),
            "dec": rng.uniform(-30, 30, rows),
            "mag": pa.array(mag, mask=rng.random(rows) < 0.1),
            "name": pa.array(names, mask=rng.random(rows) < 0.1),
        }
    )


@pytest.fixture(scope="session")
def made_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once; tests work in copies."""
    place = tmp_path_factory.mktemp("command_line") / "warehouse"
    spec = POSITION | {"name": "survey", "mode": "append", "threshold": "150 rows", "description": "nights"}
    for number in (1, 2, 3):
        hipslake.ingest(night(number), spec=spec, warehouse=place, interval=61000 + number, spark=False)
    rows = pa.concat_tables([night(2), night(3)]).select(["id", "ra", "dec"])
    reference = POSITION | {"name": "reference", "margin": {"arcsec": [10]}, "index": ["id"]}
    hipslake.ingest(
        rows.rename_columns(["ref", "ra", "dec"]), spec=reference | {"index": ["ref"]}, warehouse=place
    )
    return place


@pytest.fixture
def warehouse(made_warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The warehouse of the test, which is also that of the environment."""
    place = Path(shutil.copytree(made_warehouse, tmp_path / "warehouse", symlinks=True))
    monkeypatch.setenv("HIPSLAKE_WAREHOUSE", str(place))
    return place


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command in this process."""

    def run(*arguments: object) -> Answer:
        capsys.readouterr()
        code = main([str(each) for each in arguments])
        printed = capsys.readouterr()
        return Answer(code, printed.out, printed.err)

    return run
