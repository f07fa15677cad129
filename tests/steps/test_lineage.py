"""What a run was made of: source files are told by their folders, and none is forgotten."""

from __future__ import annotations

from collections import Counter

from hipslake.sources.source_file import SourceFile
from hipslake.steps.lineage import _MOST_FOLDERS, _of_files
from hypothesis import given
from hypothesis import strategies as st

PATHS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3), st.integers(0, 1 << 40)), max_size=80)


@given(PATHS)
def test_files_are_told_by_few_folders_that_hold_them_all(paths: list[tuple[int, int, int]]) -> None:
    files = [
        SourceFile(ordinal=at, uri=f"s3://survey/night={night}/{part}/{at}.fits", size=size, stamp="")
        for at, (night, part, size) in enumerate(paths)
    ]
    found = _of_files(files)
    assert len(found) <= _MOST_FOLDERS
    assert sum(each.files or 0 for each in found) == len(files)
    assert sum(each.bytes or 0 for each in found) == sum(file.size for file in files)
    assert all(any(file.uri.startswith(f"{each.uri}/") for each in found) for file in files)
    folders = Counter(file.uri.rpartition("/")[0] for file in files)
    if len(folders) <= _MOST_FOLDERS:
        assert {each.uri: each.files for each in found} == dict(folders)
