"""A damaged file is named, and no other is accused of what follows from it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hipslake import Catalog

from tests.catalog.eventful import KEPT
from tests.catalog.test_every_damage import files_below
from tests.steps.nights import Survey

pytestmark = pytest.mark.sampled(3)


def leaves(catalog: Catalog) -> list[str]:
    """The paths of the leaf files of the first column group, along the curve."""
    paths: list[str] = catalog.metadata.groups[0].table(catalog.storage)["path"].to_pylist()
    return paths


def named(survey: Survey) -> set[str]:
    """The files that verification of all versions names."""
    return {problem.path for problem in survey.catalog.verify(all=True).problems} - {""}


def test_of_a_leaf_that_is_gone_its_names_in_other_trees_are_none_the_worse(history: Survey) -> None:
    older = {path for number in KEPT for path in leaves(Catalog.open(history.root, number))}
    shared = [path for path in sorted(older) if not path.startswith(history.catalog.metadata.write_id)][:3]
    assert shared
    for path in shared:
        file = history.root / path
        aside = history.root.parent / "aside"
        file.rename(aside)
        assert named(history) == {path}
        aside.rename(file)


def test_rows_of_a_leaf_that_was_replaced_are_not_those_of_others(history: Survey) -> None:
    first, second = leaves(history.catalog)[:2]
    file = history.root / first
    data = (history.root / second).read_bytes()
    file.unlink()
    file.write_bytes(data)
    assert {problem.path for problem in history.catalog.verify().problems} - {""} == {first}


def year_of_a_path(data: bytes) -> bytes:
    at = data.index(b"/", data.index(b'"path"')) - len("20261124T1330-c19a6222297f")
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize("change", [year_of_a_path])
def test_what_a_changed_version_says_is_not_followed(
    history: Survey, change: Callable[[bytes], bytes]
) -> None:
    path = f"_versions/{KEPT[1]:08d}.json"
    file = history.root / path
    data = file.read_bytes()
    if b'"path"' not in data:
        pytest.skip("its partitions lie in sidecars")
    file.write_bytes(change(data))
    assert named(history) == {path}


def test_each_claim_of_an_ordinal_is_missed(history: Survey) -> None:
    claims = [path for path in files_below(history.root) if path.startswith("_versions/ordinals/")]
    assert claims
    catalog = history.catalog
    numbers = {each.ordinal for each in catalog.metadata.all_increments(catalog.storage) if each.key}
    for path in claims:
        if int(path.rpartition("/")[2].removesuffix(".json")) in numbers:
            file = history.root / path
            data = file.read_bytes()
            file.unlink()
            assert named(history) == {path}
            file.write_bytes(data)
