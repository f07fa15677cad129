"""Plans of compactions: groups, how many files come of them, what is left alone, and that it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hipslake.clustering.planning import (
    ClusterMark,
    FileSizing,
    RewriteGroup,
    TableFile,
    commit_parts,
    plan_bin_packing,
    plan_clustering,
    plan_repartitioning,
    within_bound,
)
from hypothesis import given
from hypothesis import strategies as st

MIB = 1 << 20
SIZING = FileSizing.of(100)
PACK = {"sizing": SIZING, "group_bytes": 1000}
BY = {"curve": "hilbert", "columns": ("ra", "dec"), "sizing": SIZING, "group_bytes": 1000}


def file(path: str, size: int, partition: str = "", group: str | None = None, **mark: object) -> TableFile:
    made = {"curve": "hilbert", "columns": ("ra", "dec")} | mark
    return TableFile(path, size, size, partition, None if group is None else ClusterMark(group=group, **made))


def paths(groups: list) -> list[list[str]]:
    return [[file.path for file in group.files] for group in groups]


def sizes(files: Sequence[TableFile]) -> int:
    return sum(one.bytes for one in files)


def done(files: Sequence[TableFile], groups: Sequence[RewriteGroup], run: str = "", **by: object) -> list:
    """The files after a plan was carried out, each of its share of the bytes."""
    gone = {one.path for group in groups for one in group.files}
    left = [one for one in files if one.path not in gone]
    for number, group in enumerate(groups):
        for at in range(group.num_files):
            size = group.bytes * (at + 1) // group.num_files - group.bytes * at // group.num_files
            mark = f"{run}/{number}" if by else None
            left.append(file(f"{run}-{number}-{at}", size, group.partition, mark))
    return left


def test_small_files_are_packed_together_smallest_first() -> None:
    files = [file(name, size) for name, size in [("a", 50), ("b", 10), ("c", 30), ("d", 70), ("e", 20)]]
    found = plan_bin_packing(files, **PACK)
    assert paths(found) == [["b", "e", "c", "a", "d"]]
    assert [group.num_files for group in found] == [2]


def test_files_of_the_right_size_are_left_alone_and_partitions_are_kept_apart() -> None:
    files = [file("a", 10, "x"), file("b", 10, "y"), file("c", 10, "x"), file("d", 90, "x")]
    found = plan_bin_packing(files, **PACK)
    assert [(group.partition, group.bytes, group.rows) for group in found] == [("x", 20, 20)]


def test_files_of_which_no_two_fit_into_one_become_fewer() -> None:
    files = [file(f"{at:03d}", 66 * MIB) for at in range(100)]
    [group] = plan_bin_packing(files, sizing=FileSizing.of(128 * MIB), group_bytes=100 << 30)
    assert (len(group.files), group.num_files) == (100, 52)  # of 127 MiB


def test_large_files_are_cut() -> None:
    files = [file(name, 10 << 30) for name in "abc"]
    for full in (False, True):
        [group] = plan_bin_packing(files, sizing=FileSizing.of(128 * MIB), group_bytes=100 << 30, full=full)
        assert group.num_files == 240
    one_row = TableFile("d", 1, 10 << 30)  # cannot be
    assert plan_bin_packing([one_row], sizing=FileSizing.of(128 * MIB), group_bytes=100 << 30) == []


def test_files_that_would_not_become_fewer_are_left_alone() -> None:
    assert plan_bin_packing([file("a", 74)], **PACK) == []
    assert plan_bin_packing([file("a", 74)], **PACK, full=True) != []
    sizing = FileSizing.of(100, small=95, large=110)
    assert plan_bin_packing([file("a", 80), file("b", 80)], sizing=sizing, group_bytes=1000) == []


@given(st.integers(0, 10_000), st.integers(1, 300))
def test_files_have_about_the_target_size(size: int, target: int) -> None:
    sizing = FileSizing.of(target)
    number = sizing.num_files(size)
    if size < sizing.small:
        assert number == 1
    else:
        assert sizing.small <= size / number <= sizing.large
        assert 0.75 <= size / number / target <= 1.5 or target < 20  # of few bytes, shares are rounded


FILES = st.lists(st.tuples(st.integers(0, 2500), st.sampled_from("xy"), st.integers(0, 2)), max_size=40)
Described = list[tuple[int, str, int]]


def check_plan(files: Sequence[TableFile], groups: Sequence[RewriteGroup]) -> None:
    """Each file at most once, of one partition, into files of about the target size."""
    taken = [path for group in paths(list(groups)) for path in group]
    assert len(taken) == len(set(taken))
    assert set(taken) <= {one.path for one in files}
    for group in groups:
        assert {one.partition for one in group.files} == {group.partition}
        if group.bytes >= SIZING.small:
            assert SIZING.small <= group.bytes / group.num_files <= SIZING.large


@given(FILES, st.one_of(st.none(), st.integers(360, 3000)))
def test_bin_packing_ends(described: Described, bound: int | None) -> None:
    files = [
        TableFile(str(at), size, size, partition, deletes=deletes)
        for at, (size, partition, deletes) in enumerate(described)
    ]
    most = 2000 if bound is None else bound

    def plan(files: Sequence[TableFile]) -> list[RewriteGroup]:
        return plan_bin_packing(files, sizing=SIZING, group_bytes=most, most_deletes=2)

    check_plan(files, plan(files))
    left = runs(files, plan, bound)
    for one in left:
        assert one.deletes < 2 or one.bytes > (bound or one.bytes)
        assert one.bytes <= SIZING.large or one.bytes > (bound or one.bytes)
    for partition in "xy":
        small = [one for one in left if one.partition == partition and one.bytes < SIZING.small]
        assert len(small) <= 1


@given(FILES, st.one_of(st.none(), st.integers(360, 3000)), st.integers(100, 4000))
def test_clustering_ends(described: Described, bound: int | None, group_bytes: int) -> None:
    files = [
        file(str(at), size, partition, group=None if group == 0 else f"{partition}{group}")
        for at, (size, partition, group) in enumerate(described)
    ]
    finished = group_bytes if bound is None else min(group_bytes, bound // 3)

    def plan(files: Sequence[TableFile]) -> list[RewriteGroup]:
        by = {**BY, "group_bytes": finished, "most_bytes": bound}
        return plan_clustering(files, **by)

    check_plan(files, plan(files))
    for one in runs(files, plan, bound, by=BY):
        assert one.mark is not None or one.bytes > (bound or one.bytes)


def runs(
    files: Sequence[TableFile],
    plan: Callable[[Sequence[TableFile]], list[RewriteGroup]],
    bound: int | None,
    **by: object,
) -> list[TableFile]:
    """Plan and carry out, until nothing is to be done; without a bound that is the second time."""
    total = sizes(files)
    for run in range(200):
        groups = within_bound(plan(files), bound)
        assert bound is None or sum(group.bytes for group in groups) <= bound
        if not groups:
            return list(files)
        assert bound is not None or run == 0
        files = done(files, groups, f"run{run}", **by)
        assert sizes(files) == total
    raise AssertionError("it does not end")


@given(st.lists(st.integers(1, 400), min_size=1, max_size=60), st.booleans())
def test_what_is_rewritten_is_little_for_what_came(nights: list[int], clustered: bool) -> None:
    files: list[TableFile] = []
    rewritten = 0
    for night, size in enumerate(nights):
        files.append(file(f"night{night}", size))
        groups = plan_clustering(files, **BY) if clustered else plan_bin_packing(files, **PACK)
        rewritten += sum(group.bytes for group in groups)
        files = done(files, groups, f"night{night}", **({"by": BY} if clustered else {}))
    if clustered:  # groups double until they have their size; one of a single file is rewritten each time
        assert rewritten <= sum(nights) * 6 + len(nights) * SIZING.target
    else:
        assert rewritten <= sum(nights) + len(nights) * SIZING.small


def test_all_files_of_a_partition_are_clustered_together_into_files_of_the_target_size() -> None:
    found = plan_clustering([file("a", 150), file("b", 120), file("c", 40, "p")], **BY)
    assert paths(found) == [["a", "b"], ["c"]]
    assert [group.num_files for group in found] == [3, 1]


def test_a_group_that_reached_its_size_is_left_alone() -> None:
    finished = [file(f"done{n}", 500, group="g") for n in range(2)]
    assert paths(plan_clustering([*finished, file("new", 10)], **BY)) == [["new"]]


def test_a_group_is_clustered_again_once_as_much_is_new() -> None:
    small = [file(f"small{n}", 400, group="g") for n in range(2)]
    assert paths(plan_clustering([*small, file("new", 800)], **BY)) == [["new", "small0", "small1"]]
    assert paths(plan_clustering([*small, file("new", 799)], **BY)) == [["new"]]
    one_file = [file("small", 100, group="g")]
    assert paths(plan_clustering([*one_file, file("new", 1)], **BY)) == [["new", "small"]]


def test_little_beside_much_rewrites_little() -> None:
    unfinished = [file(f"{n:04d}", 128 * MIB, group="g") for n in range(99 * 8)]
    sizing = FileSizing.of(128 * MIB)
    by = BY | {"sizing": sizing, "group_bytes": 100 << 30}
    [group] = plan_clustering([*unfinished, file("new", 1024)], **by)
    assert group.bytes == 1024


def test_groups_of_one_size_become_one() -> None:
    many = [file(f"{n}", 300, group=f"g{n}") for n in range(3)]
    assert paths(plan_clustering([file("new", 200), *many], **BY)) == [["new"], ["0", "1", "2"]]


def test_nothing_is_done_where_nothing_is_new() -> None:
    assert plan_clustering([file("a", 40, group="g"), file("b", 40, group="g")], **BY) == []


def test_other_columns_and_other_curves_count_as_not_clustered() -> None:
    by_other = [file("a", 900, group="g", columns=("mag",)), file("b", 900, group="g", columns=("mag",))]
    assert paths(plan_clustering(by_other, **BY)) == [["a", "b"]]
    assert paths(plan_clustering([file("a", 9, group="g", curve="zorder")], **BY)) == [["a"]]


def test_groups_take_files_until_they_have_their_size() -> None:
    many = [file(f"{n}", 400) for n in range(7)]
    assert paths(plan_clustering(many, **BY)) == [["0", "1", "2"], ["3", "4", "5", "6"]]
    assert paths(plan_clustering(many, **BY, most_bytes=1200)) == [["0", "1", "2"], ["3", "4", "5"], ["6"]]


def test_full_rewrites_everything() -> None:
    all_files = [file("a", 900, group="g"), file("b", 400, group="g"), file("c", 10)]
    assert paths(plan_clustering(all_files, **BY, full=True)) == [["a", "b", "c"]]
    assert paths(plan_bin_packing(all_files, **PACK | {"group_bytes": 2000}, full=True)) == [["c", "b", "a"]]


def test_files_of_older_partitions_are_grouped_by_size_alone() -> None:
    files = [TableFile(f"{n}", 9, 400, f"old{n % 2}", outdated=True) for n in range(4)]
    found = plan_repartitioning(files, sizing=SIZING, group_bytes=900)
    assert [(group.partition, group.outdated, group.num_files) for group in found] == [("", True, 8)] * 2
    assert paths(found) == [["0", "2"], ["1", "3"]]


def test_a_bound_takes_groups_of_many_files_first() -> None:
    few, many = RewriteGroup("", (file("a", 500),), 5), RewriteGroup("", (file("b", 50), file("c", 50)), 1)
    assert within_bound([few, many], None) == [few, many]
    assert within_bound([few, many], 600) == [few, many]
    assert within_bound([few, many], 599) == [many]
    assert within_bound([few, many], 99) == []


@given(st.lists(st.integers(0, 1000), max_size=30), st.integers(1, 12))
def test_groups_are_committed_in_parts_of_about_one_size(given: list[int], most: int) -> None:
    groups = [RewriteGroup("", (file(str(at), size),), 1) for at, size in enumerate(given)]
    parts = commit_parts(groups, most)
    assert [group for part in parts for group in part] == groups
    assert len(parts) <= most
    assert all(parts)
    share = sum(given) / most
    assert all(sizes([one for group in part for one in group.files]) <= share + 1000 for part in parts)


def test_no_files_are_no_plan() -> None:
    assert plan_bin_packing([], **PACK) == []
    assert plan_clustering([], **BY) == []
    assert plan_repartitioning([], sizing=SIZING, group_bytes=1) == []
    assert commit_parts([], 3) == []
