"""The files that versions need, against the paths that stand in their plain JSON and Parquet."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hipslake.catalog.change import changed_group
from hipslake.catalog.describe import describe_group
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.upkeep.needed_files import NeededFiles, needed_files
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog.leftovers import named_files
from tests.steps.nights import Survey

NAMES = st.lists(st.sampled_from("ab-./0"), min_size=1, max_size=4).map("".join)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


@given(paths=st.lists(PATHS, max_size=12), asked=PATHS)
def test_folders_and_names_are_found_as_by_looking_at_each(paths: list[str], asked: str) -> None:
    needed = NeededFiles(pa.chunked_array([pa.array(paths, pa.string())]))
    assert needed.names(asked) == (asked in paths)
    assert needed.below(asked) == len({path for path in paths if path.startswith(f"{asked}/")})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", ["hats", "hipscat"])
@pytest.mark.parametrize("most", [4096, 2])
def test_what_versions_name_is_what_they_need(
    tmp_path: Path, layout: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for function in (describe_group, changed_group):
        monkeypatch.setitem(function.__kwdefaults__, "max_inline", most)
    survey = Survey(tmp_path, layout=layout, more="bad_rows: {policy: quarantine, max_fraction: 1.0}")
    survey.night(0)
    survey.night(1)
    survey.night(0, rows=100, seed=4)
    storage = Storage.at(survey.root)
    versions = [CatalogMetadata.from_json(text) for text in VersionLog(storage).texts()][::-1]
    assert (versions[0].groups[0].sidecars is None) == (most == 4096)
    rejects = f"{versions[0].write_id}/_rejects"
    storage.write(f"{rejects}/part-0.parquet", b"PAR1")
    rejected = versions[0].increments[0].rejects.model_copy(update={"rows": 1, "path": rejects})
    increment = versions[0].increments[0].model_copy(update={"rejects": rejected})
    versions[0] = versions[0].model_copy(update={"increments": (increment,)})
    writes = sorted({version.write_id for version in versions})
    expected = named_files(survey.root) | {f"{rejects}/part-0.parquet"}
    needed = needed_files(storage, versions, writes)
    found = [entry.path for write in writes for entry in storage.list(write, recursive=True)]
    assert {path for path in found if needed.names(path)} == expected
    assert sum(needed.below(write) for write in writes) == len(expected)
    [first] = writes[:1]
    assert needed_files(storage, versions, [first]).below(first) == needed.below(first) > 0
    assert needed_files(storage, versions, [first]).below(writes[1]) == 0


def test_only_sidecars_that_may_name_a_file_in_the_writes_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for function in (describe_group, changed_group):
        monkeypatch.setitem(function.__kwdefaults__, "max_inline", 3)
    survey = Survey(tmp_path, threshold="40 rows")
    survey.night(0)
    survey.night(5)
    metadata = survey.catalog.metadata
    newest = metadata.write_id
    read: list[str] = []
    plain = Storage.read

    def counting(storage: Storage, path: str) -> bytes:
        read.append(path)
        return plain(storage, path)

    monkeypatch.setattr(Storage, "read", counting)
    needed_files(Storage.at(survey.root), [metadata, metadata], [newest])
    expected = [each.path for each in metadata.groups[0].sidecars or () if newest in each.writes]
    assert sorted(read) == sorted(expected)
    assert len(expected) < len(metadata.groups[0].sidecars or ())
