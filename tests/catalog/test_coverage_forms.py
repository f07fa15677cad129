"""Coverages are counted anew in both forms that libraries have stored them in."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipslake.catalog.checksums import checksum_of
from hipslake.catalog.coverage import count_anew
from hipslake.catalog.partitions import sidecar_bytes

from tests.steps.nights import Survey


@pytest.mark.parametrize("form", ["differences", "plain"])
def test_a_coverage_is_counted_anew_in_the_form_that_it_had(tmp_path: Path, form: str) -> None:
    survey = Survey(tmp_path)
    survey.night(0, rows=200)
    catalog = survey.catalog
    (increment,) = catalog.increments
    stored = increment.coverage
    assert stored is not None
    data = catalog.storage.read(stored.path)
    if form == "plain":
        data = sidecar_bytes(increment.cells(catalog.storage))
        stored = stored.model_copy(update={"sha256": checksum_of(data)})
        increment = increment.model_copy(update={"coverage": stored})
    assert list(count_anew(catalog.storage, catalog.metadata, [increment])) == [(stored, data)]
