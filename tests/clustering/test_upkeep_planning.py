"""Which files of a clustered table are rewritten: within the bound, and what it comes to over nights."""

from __future__ import annotations

import numpy as np
import pytest
from hipslake.clustering.bound_numbers import bound_numbers
from hipslake.clustering.curves import Curve
from hipslake.clustering.layout_quality import FileBoxes
from hipslake.clustering.planning import FileSizing, TableFile
from hipslake.clustering.upkeep_planning import (
    Upkeep,
    opened_share,
    plan_upkeep,
    query_kinds,
    rank_boxes,
    touched_by_kind,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples

Floats = np.ndarray
ROW_BYTES = 10


class Rows:
    """A table as arrays of points, file by file, that is clustered exactly."""

    def __init__(self, points: Floats, file_rows: int) -> None:
        self.file_rows = file_rows
        self.sizing = FileSizing.of(file_rows * ROW_BYTES)
        self.files = self.clustered(points)

    def clustered(self, points: Floats) -> list[Floats]:
        ranks = np.argsort(np.argsort(points, axis=0), axis=0) / len(points)
        cells = (ranks * 1024).astype(np.uint64)
        order = np.argsort(Curve.HILBERT.keys(cells, 10), kind="stable")
        return [
            points[part] for part in np.array_split(order, self.sizing.num_files(len(points) * ROW_BYTES))
        ]

    def boxes(self) -> FileBoxes:
        low = np.array([file.min(axis=0) for file in self.files])
        high = np.array([file.max(axis=0) for file in self.files])
        rows = np.array([len(file) for file in self.files], float)
        return rank_boxes(low, high, rows, np.zeros(low.shape, bool))

    def planned(self, most_bytes: float) -> Upkeep:
        files = [TableFile(str(at), len(file), len(file) * ROW_BYTES) for at, file in enumerate(self.files)]
        return plan_upkeep(
            files, self.boxes(), curve=Curve.HILBERT, sizing=self.sizing, most_bytes=most_bytes
        )

    def rewrite(self, found: Upkeep) -> int:
        """Do what is planned; return the bytes."""
        gone, new = set[int](), list[Floats]()
        for group in found.groups:
            places = [int(file.path) for file in group.files]
            assert gone.isdisjoint(places)
            gone |= set(places)
            new += self.clustered(np.concatenate([self.files[at] for at in places]))
        size = sum(len(self.files[at]) for at in gone) * ROW_BYTES
        self.files = [file for at, file in enumerate(self.files) if at not in gone] + new
        return size

    def opened(self) -> Floats:
        """The files that a query of each kind opens, by exact ranks."""
        everything = np.sort(np.concatenate(self.files), axis=0)
        low = np.stack(
            [np.searchsorted(everything[:, c], [f[:, c].min() for f in self.files]) for c in range(3)]
        )
        high = np.stack(
            [np.searchsorted(everything[:, c], [f[:, c].max() for f in self.files]) for c in range(3)]
        )
        boxes = FileBoxes(low.T / len(everything), high.T / len(everything))
        return opened_share(boxes, query_kinds(3)).sum(axis=0)


def night(random: np.random.Generator, number: int, rows: int) -> Floats:
    """Rows all over the sky in a night, or of all times."""
    return np.stack(
        [random.uniform(0, 360, rows), number + random.uniform(0, 0.3, rows), random.exponential(2, rows)], 1
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_a_table_stays_clustered_over_nights_within_the_bound(seed: int) -> None:
    random = np.random.default_rng(seed)
    table = Rows(np.concatenate([night(random, at, 200) for at in range(100)]), 200)
    left = Rows(np.concatenate(table.files), 200)
    came = rewritten = 0
    for number in range(100, 140):
        new = night(random, number, 200)
        table.files.append(new)
        left.files.append(new)
        came += len(new) * ROW_BYTES
        most = 5 * came - rewritten
        rewritten += (size := table.rewrite(table.planned(most)))
        assert size <= most
    whole = Rows(np.concatenate(table.files), 200)
    against = table.opened() / whole.opened()
    assert against.mean() < 1.15 < (left.opened() / whole.opened()).mean() + 0.1
    assert 0 < rewritten <= 5 * came
    assert np.array_equal(
        np.sort(np.concatenate(table.files), axis=0), np.sort(np.concatenate(left.files), axis=0)
    )


def test_without_anything_new_it_comes_to_an_end() -> None:
    random = np.random.default_rng(3)
    table = Rows(night(random, 0, 4000), 200)
    table.files += [night(random, 0, 50) for _ in range(40)]  # small, and all over
    before = table.opened()
    runs = 0
    while table.rewrite(table.planned(1e12)):
        runs += 1
        assert runs < 10
    whole = Rows(np.concatenate(table.files), 200).opened()
    assert (before / whole).mean() > 2
    assert (table.opened() / whole).mean() < 1.2


def test_what_is_clustered_is_left_alone() -> None:
    table = Rows(night(np.random.default_rng(4), 0, 6000), 200)
    assert table.planned(1e12).groups == ()


_NUMBER = st.floats(-100, 100, allow_nan=False, width=32)


@st.composite
def given_files(draw: st.DrawFn) -> tuple[list[TableFile], FileBoxes]:
    columns = draw(st.integers(1, 5))
    count = draw(st.integers(0, 25))
    files, low, high, empty = [], [], [], []
    for at in range(count):
        size = draw(st.integers(0, 5000))
        partition = draw(st.sampled_from(["", "a", "b"]))
        files.append(TableFile(f"{at:03d}", draw(st.integers(0, 100)), size, partition))
        ends = [sorted((draw(_NUMBER), draw(_NUMBER))) for _ in range(columns)]
        unknown = [draw(st.integers(0, 9)) for _ in range(columns)]
        low.append([np.nan if u < 2 else a for (a, _), u in zip(ends, unknown, strict=True)])
        high.append([np.nan if u < 2 else b for (_, b), u in zip(ends, unknown, strict=True)])
        empty.append([u == 0 for u in unknown])
    shape = (count, columns)
    rows = np.array([max(file.rows, 1) for file in files], float)
    boxes = rank_boxes(
        np.reshape(low, shape).astype(float),
        np.reshape(high, shape).astype(float),
        rows,
        np.reshape(empty, shape).astype(bool),
    )
    return files, boxes


@settings(max_examples=examples(500, 10), deadline=None)
@given(given_files(), st.integers(0, 30_000), st.sampled_from(list(Curve)))
def test_groups_are_within_the_bound_disjoint_and_of_one_partition(
    told: tuple[list[TableFile], FileBoxes], most: int, curve: Curve
) -> None:
    files, boxes = told
    sizing = FileSizing.of(1000)
    found = plan_upkeep(files, boxes, curve=curve, sizing=sizing, most_bytes=most)
    again = plan_upkeep(files, boxes, curve=curve, sizing=sizing, most_bytes=most)
    assert found == again
    chosen = [file.path for group in found.groups for file in group.files]
    assert len(chosen) == len(set(chosen))
    assert sum(max(file.bytes, 1) for group in found.groups for file in group.files) <= most
    for group in found.groups:
        assert {file.partition for file in group.files} == {group.partition}
        assert len(group.files) > 1 or group.files[0].bytes > sizing.large
        assert group.num_files == sizing.num_files(sum(max(file.bytes, 1) for file in group.files))


@settings(max_examples=examples(200, 10), deadline=None)
@given(given_files())
def test_ranks_lie_between_0_and_1_in_the_order_of_the_bounds(
    told: tuple[list[TableFile], FileBoxes],
) -> None:
    _, boxes = told
    low, high = boxes.low, boxes.high
    assert np.array_equal(np.isnan(low), np.isnan(high))
    known = ~np.isnan(low)
    assert ((low >= 0) & (high <= 1 + 1e-9) & (low <= high + 1e-12))[known].all()


def test_ranks_are_shares_of_the_rows() -> None:
    low = np.array([[0.0], [5.0], [5.0], [np.nan], [np.nan]])
    high = np.array([[10.0], [5.0], [20.0], [np.nan], [np.nan]])
    rows = np.array([100.0, 50.0, 150.0, 10.0, 10.0])
    found = rank_boxes(low, high, rows, np.array([[False], [False], [False], [False], [True]]))
    assert found.low[:, 0].tolist() == pytest.approx([0, 50 / 300, 50 / 300, 0, np.nan], nan_ok=True)
    assert found.high[:, 0].tolist() == pytest.approx([200 / 300, 100 / 300, 1, 1, np.nan], nan_ok=True)


def test_the_share_of_queries_that_open_a_file_is_what_many_queries_do() -> None:
    random = np.random.default_rng(0)
    low = random.uniform(0, 0.8, (30, 2))
    boxes = FileBoxes(low, low + random.uniform(0, 0.2, (30, 2)))
    kinds = query_kinds(2)
    starts = random.uniform(0, 0.9, (40_000, 2))
    for at, kind in enumerate(kinds):
        meets = np.ones((len(starts), 30), bool)
        for column in kind:
            first = starts[:, column, None]
            meets &= (boxes.low[:, column] <= first + 0.1) & (boxes.high[:, column] >= first)
        assert opened_share(boxes, kinds)[:, at] == pytest.approx(meets.mean(axis=0), abs=0.01)
    asked = touched_by_kind(boxes, kinds, queries=40_000)
    assert asked == pytest.approx(opened_share(boxes, kinds).sum(axis=0).tolist(), rel=0.02)


@settings(max_examples=examples(200))
@given(
    st.one_of(
        st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=20),
        st.lists(st.none() | st.text(max_size=12), max_size=20),
        st.lists(st.none() | st.binary(max_size=20), max_size=20),
        st.lists(st.none() | st.uuids(), max_size=20),
        st.lists(st.none() | st.decimals(-1000, 1000, places=3), max_size=20),
        st.lists(st.none() | st.floats(allow_nan=False), max_size=20),
        st.lists(st.none() | st.booleans(), max_size=20),
    )
)
def test_bounds_of_every_type_become_numbers_of_the_same_order(values: list) -> None:
    low, high = bound_numbers(values, list(reversed(values)))
    assert low.tolist() == pytest.approx(high.tolist()[::-1], nan_ok=True)
    known = [(value, number) for value, number in zip(values, low, strict=True) if value is not None]
    assert np.isnan(low).sum() == len(values) - len(known)
    by_value = [number for _, number in sorted(known, key=lambda pair: _utf8(pair[0]))]
    assert by_value == sorted(by_value)
    assert np.isfinite(by_value).all()


def _utf8(value: object) -> object:
    return value.encode(errors="surrogatepass") if isinstance(value, str) else value


def test_bounds_that_share_a_long_beginning_are_told_apart() -> None:
    low, high = bound_numbers(["a long prefix 1", "a long prefix 2"], ["a long prefix 1b", "a long prefix 3"])
    assert low[0] < high[0] < low[1] < high[1]
