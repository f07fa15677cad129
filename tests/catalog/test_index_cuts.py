"""Where the files of an index begin: by a rule that looks at what is near, whatever lies elsewhere."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hipslake.catalog.index_cuts import CutRule, entry_hashes, ranks_as_text, ranks_in_text, ranks_of
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray


def by_the_rule(ranks: list[int], reach: int) -> list[bool]:
    """The definition, in plain Python."""
    found = []
    for at, rank in enumerate(ranks):
        before, after = ranks[max(0, at - reach) : at], ranks[at + 1 : at + 1 + reach]
        whole = len(before) == len(after) == reach
        found.append(
            whole and all(rank < other for other in before) and all(rank <= other for other in after)
        )
    return found


@given(st.lists(st.integers(0, 40), max_size=120), st.integers(1, 50))
def test_files_begin_at_the_least_rank_within_reach(ranks: list[int], file_entries: int) -> None:
    rule = CutRule(file_entries)
    assert rule.begins(np.array(ranks, np.uint32)).tolist() == by_the_rule(ranks, rule.reach)


def hashes_of(count: int, seed: int) -> NDArray[np.uint64]:
    rng = np.random.default_rng(seed)
    keys = pa.array(np.sort(rng.integers(0, 1 << 40, count)), pa.int64())
    return entry_hashes(keys, rng.integers(0, 12 << 58, count))


@pytest.mark.parametrize("file_entries", [1, 2, 7, 40, 1000, 10_000])
def test_files_have_about_as_many_entries_as_asked_for(file_entries: int) -> None:
    hashes, rule = hashes_of(400_000, 1), CutRule(file_entries)
    candidates = np.flatnonzero(rule.candidates(hashes))
    begins = candidates[rule.begins(ranks_of(hashes[candidates]))]
    sizes = np.diff([0, *begins, len(hashes)])
    assert 0.8 * file_entries <= sizes.mean() <= max(3.2, 1.25 * file_entries)
    assert sizes.max() <= max(16, 4 * file_entries)
    assert np.diff(np.flatnonzero(rule.begins(ranks_of(hashes[candidates])))).min() > rule.reach


@given(st.integers(0, 1 << 30), st.integers(0, 1999), st.booleans())
def test_a_change_moves_no_cut_beyond_its_reach(seed: int, at: int, comes: bool) -> None:
    rule = CutRule(1000)
    ranks = np.random.default_rng(seed).integers(0, 1 << 32, 2000, dtype=np.uint64).astype(np.uint32)
    other = np.insert(ranks, at, np.uint32(seed % 977)) if comes else np.delete(ranks, at)
    before, after = (np.flatnonzero(rule.begins(each)) for each in (ranks, other))
    step = 1 if comes else -1
    assert before[before < at - rule.reach].tolist() == after[after < at - rule.reach].tolist()
    assert (before[before > at + rule.reach] + step).tolist() == after[
        after > at + rule.reach + step
    ].tolist()


@pytest.mark.parametrize("factor", [1, 4, -1])
def test_entries_whose_value_is_their_pixel_have_hashes_of_their_own(factor: int) -> None:
    h29 = np.unique(np.random.default_rng(1).integers(0, 12 << 58, 100_000))
    hashes = entry_hashes(pa.array(h29 * factor), h29)
    assert len(np.unique(hashes)) == len(hashes)
    assert len(h29) / 100 < np.sum(CutRule(1000).candidates(hashes)) < len(h29) / 10


def test_a_hash_follows_from_the_value_and_its_pixel() -> None:
    h29 = np.arange(5, dtype=np.int64)
    from_int = entry_hashes(pa.array([1, 2, 3, 4, 5], pa.int64()), h29)
    assert len(set(from_int.tolist())) == 5
    assert (
        entry_hashes(pa.array([5, 4, 3, 2, 1], pa.int64()), h29[::-1].copy()).tolist()
        == from_int[::-1].tolist()
    )


@given(st.lists(st.integers(0, 2**32 - 1)))
def test_ranks_come_back_from_text(ranks: list[int]) -> None:
    assert ranks_in_text(ranks_as_text(np.array(ranks, np.uint32))).tolist() == ranks
