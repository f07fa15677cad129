"""Paths of the two layouts."""

from __future__ import annotations

import fnmatch
import re

import pyarrow as pa
import pytest
from hipslake.catalog.layouts import HATS, HATS_FOLDERS, HIPSCAT, LayoutPaths, layout_paths
from hipslake.errors import CatalogFormatError
from hipslake.sphere.pixels import Pixel
from hypothesis import given
from hypothesis import strategies as st

WRITE = "20261121T0330-7f3a"
every = pytest.mark.parametrize("paths", [HATS, HATS_FOLDERS, HIPSCAT], ids=["hats", "folders", "hipscat"])
pixels = st.integers(0, 29).flatmap(
    lambda order: st.builds(Pixel, st.just(order), st.integers(0, 12 * 4**order - 1))
)


def test_paths_are_those_of_the_formats() -> None:
    assert (
        HATS.partition_path(WRITE, "main", Pixel(6, 44033))
        == f"{WRITE}/main/dataset/Norder=6/Dir=40000/Npix=44033.parquet"
    )
    assert (
        HATS_FOLDERS.partition_path(WRITE, "main", Pixel(6, 44033))
        == f"{WRITE}/main/dataset/Norder=6/Dir=40000/Npix=44033/{WRITE}.parquet"
    )
    assert HIPSCAT.partition_path(WRITE, "details", Pixel(2, 5)) == f"{WRITE}/Norder=2/Npix=5/details.parquet"
    assert layout_paths("hats") is HATS
    assert layout_paths("hipscat") is HIPSCAT


writes = st.sampled_from([WRITE, WRITE + "0", "w", "20261122T0330-é"])


@given(leaves=st.lists(st.tuples(writes, pixels), max_size=9), cut=st.integers(0, 9))
def test_files_of_other_writes_keep_their_place_in_the_tree(
    leaves: list[tuple[str, Pixel]], cut: int
) -> None:
    files = [HATS.partition_path(write_id, "main", pixel) for write_id, pixel in leaves]
    paths, in_tree = HATS.of_other_writes(WRITE, pa.chunked_array([files[:cut], files[cut:]], pa.string()))
    pairs = zip(paths.to_pylist(), in_tree.to_pylist(), strict=True)
    assert sorted(pairs) == sorted(
        (HATS.partition_path(write_id, "main", pixel), HATS.partition_path(WRITE, "main", pixel))
        for write_id, pixel in leaves
        if write_id != WRITE
    )


@every
@given(pixel=pixels)
def test_a_path_says_what_it_was_made_from(paths: LayoutPaths, pixel: Pixel) -> None:
    path = paths.partition_path(WRITE, "main", pixel)
    assert paths.parse(path) == (WRITE, "main", pixel)
    assert path.startswith(paths.group_root(WRITE, "main") + "/")
    assert fnmatch.fnmatch(path, paths.leaf_glob(WRITE, "main"))
    assert not fnmatch.fnmatch(path, paths.leaf_glob(WRITE, "details"))


@every
@pytest.mark.parametrize(
    "path",
    [
        "metadata.json",
        "w/main/dataset/Norder=2/Dir=0/Npix=5/x.parquet",
        "w/main/dataset/Norder=2/Dir=10000/Npix=5.parquet",
        "w/main/dataset/Norder=2/Dir=0/Npix=05.parquet",
        "w/main/dataset/Norder=0/Dir=0/Npix=12.parquet",
        "w/main/dataset/Norder=30/Dir=0/Npix=5.parquet",
        "w/Norder=2/Npix=192/main.parquet",
        "w/Norder=02/Npix=5/main.parquet",
        "w/Norder=2/Npix=5/main.parquet.tmp",
        "w/Norder=2/Npix=99999999999999999999/main.parquet",
    ],
)
def test_other_paths_are_refused(paths: LayoutPaths, path: str) -> None:
    with pytest.raises(CatalogFormatError):
        paths.parse(path)


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "bb", WRITE]), st.integers(0, 3), st.integers(0, 2)),
        max_size=500,
    ).map(lambda found: [*dict.fromkeys(found)]),
    st.integers(0, 500),
)
def test_gathered_files_have_a_name_each_in_a_tree(found: list[tuple[str, int, int]], cut: int) -> None:
    paths = [HIPSCAT.partition_path(write, "main", Pixel(order, npix)) for write, order, npix in found]
    others, in_tree = HIPSCAT.of_other_writes(
        WRITE, pa.chunked_array([paths[:cut], paths[cut:]], pa.string())
    )
    own = [path for path in paths if path.startswith(f"{WRITE}/")]
    names = in_tree.to_pylist()
    assert sorted(others.to_pylist()) == sorted(set(paths) - set(own))
    assert len({*names, *own}) == len(names) + len(own)
    for path, name in zip(others.to_pylist(), names, strict=True):
        order, npix = re.fullmatch(rf"{WRITE}/Norder=(\d+)/Npix=(\d+)/main\.parquet", name).groups()
        assert Pixel(int(order), int(npix)) == HIPSCAT.parse(path).pixel


def test_of_hundreds_of_gathered_files_each_has_a_name_that_a_file_system_takes() -> None:
    writes = [f"20261121T0330-{number:012x}" for number in range(450)]
    paths = pa.chunked_array([[HIPSCAT.partition_path(each, "main", Pixel(3, 17)) for each in writes]])
    names = HIPSCAT.of_other_writes(writes[-1], paths)[1].to_pylist()
    assert len(set(names)) == 449
    assert max(len(part) for name in names for part in name.split("/")) < 255
    assert {(int(name.split("/")[1][7:]), int(name.split("/")[2][5:])) for name in names} == {(3, 17)}
