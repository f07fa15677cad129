"""A slice of the fuzzing, and that the fuzzing sees what it looks for; `make fuzz` reads 100,000 inputs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipslake.sources.formats import READERS

from tests.examples import ALL
from tests.fuzz.deadly import DEADLY, FATES
from tests.fuzz.running import fuzz
from tests.fuzz.targets import TARGETS, shares
from tests.trust.records import FUZZ

SLICE = 12 if ALL else 4
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # astropy's, about cards that are spoilt


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", TARGETS)
def test_hostile_inputs_are_read_or_refused_with_an_error_of_ours(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    for number in range(SLICE):
        folder = tmp_path / str(number)
        folder.mkdir()
        target.verdict(target.case(0, number), folder)


def test_every_format_of_sources_is_fuzzed() -> None:
    assert set(READERS) <= set(TARGETS)


def test_the_same_seed_gives_the_same_inputs() -> None:
    for target in TARGETS.values():
        assert target.case(3, 5) == target.case(3, 5)
    assert len({TARGETS["csv"].case(3, number).data for number in range(20)}) > 10


def test_no_input_is_lost_between_the_targets() -> None:
    assert sum(shares(list(TARGETS), 100_000).values()) == 100_000
    assert min(shares(list(TARGETS), 100_000).values()) > 500


def test_errors_of_others_hangs_crashes_and_floods_are_seen_and_told_apart() -> None:
    outcome = fuzz({DEADLY.name: range(len(FATES))}, seed=0, workers=1)[DEADLY.name]
    assert outcome.verdicts.total() == len(FATES)
    expected = [fate for fate in FATES if fate != "read"]
    assert [fault.kind for fault in outcome.faults] == expected
    assert [fault.number for fault in outcome.faults] == [FATES.index(fate) for fate in expected]
    told = {fault.kind: fault.told for fault in outcome.faults}
    assert "not ours" in told["fault"]
    assert "_read" in told["hang"]  # where it hung
    assert "Abort" in told["crash"]


def test_results_are_written_between_the_comments_of_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.trust.records import note

    monkeypatch.setenv("HIPSLAKE_TRUST_RESULTS", str(tmp_path))
    page = "before\n<!-- make fuzz: begin -->\nold\n<!-- make fuzz: end -->\nafter\n"
    assert FUZZ.written_into(page) == page, "without a result, what stands there stays"
    for inputs in (5, 10):
        note(FUZZ, "csv", inputs=inputs, read=3, refused=7, faults=0, seed=1, seconds=2)
    written = FUZZ.written_into(page)
    assert "| csv | 10 | 3 | 7 | 0 | 1 | 2 |" in written
    assert "old" not in written
    assert written.startswith("before\n")
    assert written.endswith("\nafter\n")
    assert FUZZ.written_into(written) == written
