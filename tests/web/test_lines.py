"""Lines to copy open the newest version of a catalog, whole; where none would, there is no line."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hipslake_airflow.web.lines import lines

from tests.steps import in_process
from tests.steps.nights import Survey


def told(survey: Survey) -> dict[str, str]:
    return {line.tool: line.text for line in lines(str(survey.root), survey.catalog.metadata)}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("unchanged", ["link", "reference"])
@pytest.mark.parametrize("layout", ["hats", "hipscat"])
def test_what_a_line_opens_is_the_newest_version(tmp_path: Path, layout: str, unchanged: str) -> None:
    survey = Survey(tmp_path, layout=layout, more=f"unchanged: {unchanged}\nappend: add_file")
    always, seen = {"hipslake", "Spark"}, set()
    for number in range(3):
        survey.night(number)
        before = told(survey)
        in_process.show(survey.begin())
        newest = survey.catalog.metadata
        paths = newest.partitions(None, survey.catalog.storage)["path"].to_pylist()
        whole = unchanged == "link" or all(path.startswith(f"{newest.write_id}/") for path in paths)
        assert whole or number
        by_folder = {"DuckDB", "LSDB"} if layout == "hats" else {"DuckDB"}
        after = told(survey)
        assert set(after) == (always | by_folder if whole else always)
        seen.add(whole)
        for each in (before, after):
            if "DuckDB" not in each:
                continue
            pattern = each["DuckDB"].split("'")[1]
            files = survey.root.glob(pattern.removeprefix(f"{survey.root}/"))
            ids = [
                value for file in files for value in pq.read_table(file, partitioning=None)["id"].to_pylist()
            ]
            assert sorted(ids) == sorted(survey.catalog.read(["id"])["id"].to_pylist())
    assert seen == ({True} if unchanged == "link" else {True, False})
