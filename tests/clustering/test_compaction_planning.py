"""Plans of compactions: bins, groups, and what is left alone."""

from __future__ import annotations

from hipslake.clustering.planning import ClusterMark, TableFile, plan_bin_packing, plan_clustering
from hypothesis import given
from hypothesis import strategies as st

BY = {"curve": "hilbert", "columns": ("ra", "dec"), "target_bytes": 100, "group_bytes": 1000}


def file(path: str, size: int, partition: str = "", group: str | None = None, **mark: object) -> TableFile:
    made = {"curve": "hilbert", "columns": ("ra", "dec")} | mark
    return TableFile(path, size, size, partition, None if group is None else ClusterMark(group=group, **made))


def paths(groups: list) -> list[list[str]]:
    return [[file.path for file in group.files] for group in groups]


def test_small_files_are_packed_smallest_first_and_single_ones_dropped() -> None:
    files = [file(name, size) for name, size in [("a", 50), ("b", 10), ("c", 30), ("d", 70), ("e", 20)]]
    found = plan_bin_packing(files, target_bytes=100, min_bytes=80)
    assert paths(found) == [["b", "e", "c"]]  # 10 + 20 + 30; 50 does not fit, and neither 50 + 70
    assert [group.num_files for group in found] == [1]


def test_large_files_are_left_alone_and_partitions_are_kept_apart() -> None:
    files = [file("a", 10, "x"), file("b", 10, "y"), file("c", 10, "x"), file("d", 90, "x")]
    found = plan_bin_packing(files, target_bytes=100, min_bytes=80)
    assert [(group.partition, group.bytes, group.rows) for group in found] == [("x", 20, 20)]


@given(st.lists(st.tuples(st.integers(0, 120), st.sampled_from("xy")), max_size=40))
def test_bins_hold_each_small_file_at_most_once_and_no_more_than_the_target(
    sizes: list[tuple[int, str]],
) -> None:
    files = [file(str(at), size, partition) for at, (size, partition) in enumerate(sizes)]
    found = plan_bin_packing(files, target_bytes=100, min_bytes=80)
    packed = [path for group in paths(found) for path in group]
    assert len(packed) == len(set(packed))
    for group in found:
        assert len(group.files) > 1
        assert group.bytes <= 100
        assert {one.partition for one in group.files} == {group.partition}
        assert all(one.bytes < 80 for one in group.files)


def test_all_files_of_a_partition_are_clustered_together_into_files_of_the_target_size() -> None:
    found = plan_clustering([file("a", 150), file("b", 120), file("c", 40, "p")], **BY)
    assert paths(found) == [["a", "b"], ["c"]]
    assert [group.num_files for group in found] == [3, 1]


def test_a_group_that_reached_its_size_is_left_alone() -> None:
    done = [file(f"done{n}", 500, group="g") for n in range(2)]
    assert paths(plan_clustering([*done, file("new", 10)], **BY)) == [["new"]]


def test_a_group_that_is_still_small_is_clustered_again_with_what_is_new() -> None:
    small = [file(f"small{n}", 400, group="g") for n in range(2)]
    assert paths(plan_clustering([*small, file("new", 10)], **BY)) == [["new", "small0", "small1"]]


def test_nothing_is_done_where_nothing_is_new() -> None:
    assert plan_clustering([file("a", 40, group="g"), file("b", 40, group="g")], **BY) == []


def test_other_columns_and_other_curves_count_as_not_clustered() -> None:
    by_other = [file("a", 900, group="g", columns=("mag",)), file("b", 900, group="g", columns=("mag",))]
    assert paths(plan_clustering(by_other, **BY)) == [["a"], ["b"]]  # 1800 are more than one group takes
    assert paths(plan_clustering([file("a", 9, group="g", curve="zorder")], **BY)) == [["a"]]


def test_full_rewrites_everything() -> None:
    done = [file("a", 900, group="g"), file("b", 400, group="g"), file("c", 10)]
    assert paths(plan_clustering(done, **BY, full=True)) == [["a", "b", "c"]]


def test_no_files_are_no_plan() -> None:
    assert plan_bin_packing([], target_bytes=100, min_bytes=80) == []
    assert plan_clustering([], **BY) == []
