"""The spec of a compaction: what it takes, and what it says about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipslake.errors import SpecError
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.specs.spec_folder import load_spec

WHOLE = """\
name: stars
type: compaction
table: survey.stars
mode: hilbert
columns: [_healpix_29, night, mag]
partitions: night >= '2026-01-01'
target_file_size: 64 MiB
schedule: 0 4 * * *
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "stars.yaml"
    path.write_text(text)
    return path


def test_a_spec_is_read_and_has_defaults(tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path, WHOLE), CompactionSpec)
    assert spec.columns == ("_healpix_29", "night", "mag")
    assert spec.target_file_size is not None
    assert (spec.target_file_size.value, spec.min_file_size, spec.max_commits) == (64 << 20, None, 1)
    assert (spec.num_ranges, spec.add_noise, spec.seed) == (1000, True, 0)
    assert spec.with_overrides(partitions="night = 'x'").partitions == "night = 'x'"
    assert spec.with_overrides(partitions=None) == spec


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mode: hilbert", "mode: binpack", "mode binpack clusters by none"),
        ("columns: [_healpix_29, night, mag]", "columns: []", "mode hilbert needs at least one column"),
        ("table: survey.stars", "", "give either 'table'"),
        ("table: survey.stars", "table: a.b\nfolder: {uri: /a, output: /b}", "give either 'table'"),
        ("64 MiB", "3 rows", r"stars.yaml:7: target_file_size: 3 rows counts rows; write bytes"),
        ("mode: hilbert", "mode: sort", "mode sort sorts by 'sort'; leave them out"),
        ("mode: hilbert", "mode: hilbert\nsort: [ra]", "sort: is for mode sort, and this is hilbert"),
        (
            "table: survey.stars\nmode: hilbert\ncolumns: [_healpix_29, night, mag]",
            "folder: {uri: /a, output: /b}\nmode: sort",
            "sort: a folder has no sort order of its own",
        ),
        (
            "table: survey.stars",
            "folder: {uri: /a, output: /b}\nmax_commits: 2",
            "max_commits: a new folder appears as a whole",
        ),
        ("64 MiB", "64 MiB\nmin_file_size: 65 MiB", "min_file_size: 65 MiB is more than target_file_size"),
        ("64 MiB", "64 MiB\nmax_file_size: 63 MiB", "max_file_size: 63 MiB is less than target_file_size"),
        ("mode: hilbert", "mode: snake", "stars.yaml:4: mode: 'snake'"),
        ("mode: hilbert", "mode: liquid", "partitions: mode liquid chooses by what queries open"),
        ("mode: hilbert", "mode: hilbert\nclustering: {curve: zorder}", "clustering: is for mode liquid"),
        (
            "table: survey.stars\nmode: hilbert",
            "folder: {uri: /a, output: /b}\nmode: liquid",
            "mode: a folder is compacted once",
        ),
        ("0 4 * * *", "at dawn", "stars.yaml:8: schedule"),
        ("mode:", "modus:", "unknown key; did you mean 'mode'"),
    ],
)
def test_mistakes_are_told_with_their_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load_spec(write(tmp_path, WHOLE.replace(old, new)), CompactionSpec)
