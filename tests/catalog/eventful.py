"""Little catalogs to which everything happened that leaves files: made by the real steps, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.catalog.change import changed_group, changed_margin
from hipslake.catalog.describe import describe_group, describe_margin, describe_sources
from hipslake.engine.this_process import ThisProcess
from hipslake.steps.append.next_version import describe_increment
from hipslake.steps.index import request as index_step
from hipslake.steps.index import run as index_work
from hipslake.steps.ingest import draft
from hipslake.steps.report import perform

from tests.catalog.vacuuming import show, vacuum
from tests.steps import in_process
from tests.steps.nights import Survey, night_rows

KEPT = (4, 5, 6, 7, 8)
VACUUMED = (1, 2, 3)
SHAPES = {
    "hats": {
        "layout": "hats",
        "more": "column_groups: [{name: main}, {name: seen, columns: [mag, night]}]\n",
    },
    "hipscat": {"layout": "hipscat"},
    "sidecars": {"layout": "hats"},
}
_MORE = "bad_rows: {policy: quarantine}\nindex: [id]\n"
_WHOLE = 100  # the number that the rows of the whole are told by


def eventful(place: Path, shape: str) -> Survey:
    """A catalog of eight versions, of which three were vacuumed, shown to readers after each.

    A whole of which some rows were rejected; two nights; a margin; an index; a night that came again; what
    was before that, brought back; another night.
    """
    chosen = SHAPES[shape]
    survey = Survey(place, threshold="150 rows", layout=chosen["layout"], more=_MORE + chosen.get("more", ""))
    with little_inline() if shape == "sidecars" else pytest.MonkeyPatch.context():
        _whole(survey)
        for number in range(2):
            survey.night(number, rows=120)
            show(survey)
        survey.catalog.build_margin(3600)
        request = index_step.BuildIndexRequest(run_uri=survey.begin().uri, published=True, file_rows=200)
        perform(lambda asked: index_work.run(asked, ThisProcess()), request, index_step.BuildIndexReport)
        show(survey)
        survey.night(0, rows=100, seed=1)
        show(survey)
        survey.landed[0] = night_rows(0, 120)
        survey.catalog.rollback(5)
        survey.night(2, rows=110)
        show(survey)
        vacuum(survey, keep_versions=len(KEPT))
    return survey


@contextmanager
def little_inline() -> Iterator[None]:
    """Tables lie beside the metadata, but for the shortest."""
    with pytest.MonkeyPatch.context() as patch:
        for function in (describe_group, changed_group, describe_margin, changed_margin):
            patch.setitem(function.__kwdefaults__, "max_inline", 3)
        for function in (describe_sources, describe_increment, draft.increment_of):
            patch.setitem(function.__kwdefaults__, "max_inline", 1)
        patch.setattr(draft, "MOST_LISTED", 2)
        patch.setattr(draft, "LISTED_AGAIN", 1)
        yield


def _whole(survey: Survey) -> None:
    """Publish a whole of which three rows lie nowhere."""
    rows = night_rows(_WHOLE, rows=500)
    wrong = rows.slice(0, 3).set_column(1, "ra", pa.array(np.full(3, np.nan)))
    folder = survey.place / "whole"
    folder.mkdir(parents=True)
    pq.write_table(pa.concat_tables([wrong, rows.slice(0, 250)]), folder / "0.parquet")
    pq.write_table(rows.slice(250), folder / "1.parquet")
    (survey.place / "first").mkdir()
    spec = in_process.write_spec(
        survey.place / "first" / "stars.yaml",
        f"{folder}/*.parquet",
        threshold=survey.threshold,
        layout=survey.layout,
        more=survey.more.replace("index: [id]\n", ""),
    )
    run = in_process.start(survey.warehouse, spec, "whole")
    in_process.freeze(run)
    in_process.count(run)
    in_process.make_plan(run)
    in_process.write_leaves(run)
    in_process.make_margins(run)
    in_process.check(run)
    in_process.commit(run)
    in_process.show(run)
    survey.landed[_WHOLE] = rows
