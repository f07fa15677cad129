"""Vacuums and new columns of which the catalog does not say whether they stand."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from hipslake.errors import (
    CommitStateUnknownError,
    HipslakeError,
    StorageError,
)
from hipslake.tables.iceberg.commit_attempts import attempts_of
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from sqlalchemy.exc import OperationalError

from tests.system.sinks import orphans
from tests.tables.faults import (
    REFUSED,
    UNKNOWN,
    assert_whole,
    content,
    failing,
    held_up,
    night,
    raising,
    sink,
    swept,
    vacuumed,
)
from tests.tables.sinking import Lake

pytestmark = pytest.mark.usefixtures("quick")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("error", [*UNKNOWN, OperationalError("COMMIT", {}, Exception("lost"))], ids=str)
def test_a_vacuum_looks_for_what_the_catalog_does_not_say(lake: Lake, error: Exception) -> None:
    spec = lake.spec(mode="upsert", key="id")
    for number in (1, 2, 3):
        sink(lake, spec, number, night(number, range(4)))
    failing(raising(error))
    with pytest.raises(CommitStateUnknownError, match="the snapshots are still there so far; run it again"):
        vacuumed(lake, spec)
    assert_whole(lake.table(spec))
    assert len(lake.table(spec).snapshots()) == 3
    swept(lake, spec)  # nobody is at work
    failing(raising(error, taken=True))
    assert len(vacuumed(lake, spec).expired) == 2
    assert content(lake, spec) == [(n, 3) for n in range(4)]
    swept(lake, spec)
    assert orphans(lake.table(spec)) == []


def test_a_vacuum_that_takes_effect_after_a_sweep_is_completed(lake: Lake) -> None:
    spec = lake.spec(mode="upsert", key="id")
    for number in (1, 2, 3):
        sink(lake, spec, number, night(number, range(4)))
    held: list[Callable[[], object]] = []
    failing(held_up(CommitStateUnknownException("504"), held))
    with pytest.raises(CommitStateUnknownError):
        vacuumed(lake, spec)
    assert swept(lake, spec) == []
    held.pop()()
    assert len(lake.table(spec).snapshots()) == 1
    assert len([path for path in swept(lake, spec) if path.endswith(".parquet")]) == 2
    assert orphans(lake.table(spec)) == []
    assert content(lake, spec) == [(n, 3) for n in range(4)]


@pytest.mark.parametrize(("error", "kind", "mend"), REFUSED, ids=lambda given: str(given)[:3])
def test_a_refusal_of_a_vacuum_is_told_with_its_mend(
    lake: Lake, error: Exception, kind: type[HipslakeError], mend: str
) -> None:
    spec = lake.spec(mode="upsert", key="id")
    for number in (1, 2):
        sink(lake, spec, number, night(number, range(4)))
    failing(raising(error))
    with pytest.raises(kind, match=mend):
        vacuumed(lake, spec)
    assert attempts_of(lake.table(spec)) == []
    assert content(lake, spec) == [(n, 2) for n in range(4)]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("taken", [False, True])
@pytest.mark.parametrize("error", UNKNOWN[:6], ids=str)
def test_a_column_of_which_the_catalog_does_not_say_whether_it_came(
    lake: Lake, error: Exception, taken: bool
) -> None:
    spec = lake.spec()
    sink(lake, spec, 1, night(1, range(4)))
    wider = night(2, range(4, 8)).append_column("extra", pa.array([1.0] * 4))
    failing(raising(error, taken=taken))
    with pytest.raises((CommitStateUnknownError, StorageError)):
        sink(lake, spec, 2, wider)
    sink(lake, spec, 2, wider)
    assert lake.rows(spec)["extra"].to_pylist() == [None] * 4 + [1.0] * 4


def test_a_column_that_came_though_another_writer_is_said_to_have_been_first(lake: Lake) -> None:
    """As of a request that a gateway has sent twice."""
    spec = lake.spec()
    sink(lake, spec, 1, night(1, range(4)))
    wider = night(2, range(4, 8)).append_column("extra", pa.array([1.0] * 4))
    failing(raising(CommitFailedException("409"), taken=True))
    sink(lake, spec, 2, wider)
    assert lake.rows(spec)["extra"].to_pylist() == [None] * 4 + [1.0] * 4
