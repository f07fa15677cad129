"""A spec of three catalogs step by step: what is frozen, pinned and published; and what a chain gives."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipslake import Catalog
from hipslake.errors import CatalogNotFoundError, SpecError
from hipslake.specs.join_specs import CrossmatchSpec
from hipslake.steps.frozen_run import FrozenInputs
from hipslake.steps.join import run as crossmatch_work
from hipslake.steps.join.frozen_join import FrozenCrossmatch, frozen_join
from hipslake.steps.join.request import FROZEN, ResolveCrossmatchReport
from hipslake.steps.run import RunFolder
from hipslake.storage.folder import Storage

from tests.catalog.little import sky
from tests.catalog.matching import published, rows_at
from tests.steps import in_process

pytestmark = [pytest.mark.sampled(2), pytest.mark.usefixtures("large_sides")]

SPEC = """\
name: a_x_all
type: crossmatch
left: {catalog: a, columns: [id]}
right: {catalog: b, columns: [id], filters: id < 500}
radius_arcsec: 60
neighbours: all
threshold: 200 rows
further:
  - right: {catalog: c, columns: [id, err]}
    radius: {right: err, sigmas: 3}
    nearness: sigmas_c
    neighbours: 2
    how: left
  - right: {catalog: b, filters: id >= 500}
    radius_arcsec: 30
    how: anti
"""


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`a`, and `b` and `c` near it, of which `c` has no margin and errors of up to 40 arcsec."""
    rng = np.random.default_rng(2)
    ra, dec = sky(700)
    root = tmp_path_factory.mktemp("further") / "warehouse" / "catalogs"
    published(root, "a", rows_at(ra, dec), threshold="200 rows")
    sides = {}
    for name, step in (("b", 0.01), ("c", 0.02)):
        some = rng.integers(0, 600, 650)
        near = np.clip(dec[some] + step * rng.normal(size=650), -90, 90)
        sides[name] = rows_at(ra[some], near, err=rng.uniform(5, 40, 650))
    published(root, "b", sides["b"], threshold="120 rows", margin_arcsec=60.0)
    published(root, "c", sides["c"], threshold="90 rows")
    return root.parent


@pytest.fixture
def warehouse(catalogs: Path, tmp_path: Path) -> Path:
    shutil.copytree(catalogs, tmp_path / "warehouse", symlinks=True)
    return tmp_path / "warehouse"


def start(warehouse: Path, more: str = "", run_id: str = "first", **fields: Any) -> RunFolder:
    file = warehouse.parent / "a_x_all.yaml"
    file.write_text(SPEC + more)
    return in_process.start_match(warehouse, file, run_id, **{"missing_margin": "build"} | fields)


def opened(warehouse: Path, name: str) -> Catalog:
    return Catalog.open(warehouse / "catalogs" / name)


def told(folder: RunFolder) -> ResolveCrossmatchReport:
    return folder.read(RunFolder.report_path("resolve"), ResolveCrossmatchReport)


def test_what_is_published_is_the_match_in_memory(warehouse: Path) -> None:
    folder = start(warehouse, "margin: {arcsec: 30}\nindex: [id_c]\n")
    in_process.publish_match(folder)
    found = opened(warehouse, "a_x_all")
    found.verify().raise_if_failed()
    a, b, c = (opened(warehouse, name) for name in "abc")
    c.build_margin(130)
    c = opened(warehouse, "c")
    radius = {"right": "err", "sigmas": 3}
    near = {"right": {"catalog": c, "columns": ["id", "err"]}, "radius": radius, "nearness": "sigmas_c"}
    far = {"right": {"catalog": b, "filters": "id >= 500"}, "radius_arcsec": 30, "how": "anti"}
    expected = a.crossmatch(
        b,
        columns=["id"],
        other_columns=["id"],
        other_filters="id < 500",
        radius_arcsec=60,
        neighbours="all",
        further=[near | {"neighbours": 2, "how": "left"}, far],
    )
    assert found.read().equals(expected)
    assert expected.num_rows > 200
    assert 0 < expected["id_c"].null_count < expected.num_rows
    assert [margin.radius_arcsec for margin in found.metadata.margins] == [30.0]
    assert [index.column for index in found.metadata.indices] == ["id_c"]
    (increment,) = found.metadata.increments
    assert [Path(entry.uri).parts[-3] for entry in increment.sources.entries or ()] == ["a", "b", "c", "b"]
    assert found.metadata.description == (
        "a with b (id < 500) within 60 arcsec; and, where there is one, c within 3 times the errors "
        "(quadrature: err of the right); without b (id >= 500) within 30 arcsec"
    )


def test_it_is_what_two_matches_in_a_chain_give(warehouse: Path) -> None:
    """`a` with `b` is published, and then matched with `c`: the same rows in the same order."""
    opened(warehouse, "c").build_margin(60)
    text = SPEC[: SPEC.index("further:")].replace("a_x_all", "a_x_b")
    chain = warehouse.parent / "a_x_b.yaml"
    chain.write_text(text.replace("columns: [id], filters", "columns: [id, err], filters"))
    in_process.publish_match(in_process.start_match(warehouse, chain))
    a, b, c, pairs = (opened(warehouse, name) for name in ("a", "b", "c", "a_x_b"))
    for how in ("inner", "left", "anti"):
        rule: dict[str, Any] = {"radius_arcsec": 60, "how": how, "neighbours": 3}
        found = a.crossmatch(
            b,
            columns=["id"],
            other_columns=["id", "err"],
            other_filters="id < 500",
            radius_arcsec=60,
            neighbours="all",
            further=[{"right": {"catalog": c, "columns": ["id"]}, **rule}],
        )
        names = {"separation": "separation_arcsec_c", "position_angle": "position_angle_deg_c"}
        expected = pairs.crossmatch(c, other_columns=["id"], suffixes=("", "_c"), **rule, **names)
        assert found.equals(expected), how
        assert expected.num_rows > 50


def test_equal_input_gives_equal_bytes_however_the_work_is_cut(warehouse: Path) -> None:
    digests = []
    for cores, knobs in ((1, {}), (2, {"task_rows": 50, "target_bytes": 2000}), (1, {"task_rows": 1})):
        folder = start(warehouse, run_id=f"run {len(digests)}", force=True)
        in_process.match(folder, cores=cores, **knobs)
        in_process.check(folder)
        in_process.commit(folder)
        found = opened(warehouse, "a_x_all")
        digests.append(found.metadata.partitions(None, found.storage)["sha256"].to_pylist())
    assert digests[0] == digests[1] == digests[2] != []


def test_a_run_without_margins_says_how_many_rows_may_lack_partners(warehouse: Path) -> None:
    file = warehouse.parent / "a_x_two.yaml"
    file.write_text(SPEC[: SPEC.index("  - right: {catalog: b")].replace("a_x_all", "a_x_two"))
    folder = in_process.start_match(warehouse, file, missing_margin="none")
    assert not told(folder).without_margin
    assert [(each.without_margin, each.builds_margin) for each in told(folder).further] == [(True, False)]
    in_process.publish_match(folder)
    found = opened(warehouse, "a_x_two")
    a, b, c = (opened(warehouse, name) for name in "abc")
    radius = {"right": "err", "sigmas": 3}
    near = {"right": {"catalog": c, "columns": ["id", "err"]}, "radius": radius, "nearness": "sigmas_c"}
    expected = a.crossmatch(
        b,
        columns=["id"],
        other_columns=["id"],
        other_filters="id < 500",
        radius_arcsec=60,
        neighbours="all",
        missing_margin="none",
        further=[near | {"neighbours": 2, "how": "left"}],
    )
    assert found.read().equals(expected)
    assert expected.schema.metadata[b"rows_near_borders"] == str(found.metadata.rows_near_borders).encode()
    assert (found.metadata.rows_near_borders or 0) > 0
    c.build_margin(130)
    whole = in_process.start_match(warehouse, file, "whole", missing_margin="none")
    in_process.publish_match(whole)
    assert opened(warehouse, "a_x_two").metadata.rows_near_borders is None
    assert opened(warehouse, "a_x_two").metadata.total_rows >= expected.num_rows


def test_every_side_is_frozen_and_pinned(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = start(warehouse)
    report = told(folder)
    assert (report.left_version, report.right_version, report.builds_margin) == (1, 1, False)
    near, far = report.further
    assert (near.catalog, near.version, near.builds_margin) == ("c", 1, True)
    assert 100 < near.reach_arcsec < 120
    assert (far.catalog, far.version, far.builds_margin, far.reach_arcsec) == ("b", 1, False, 30.0)
    assert FrozenInputs.of(folder).total_bytes == sum(
        opened(warehouse, name).metadata.total_bytes for name in ("a", "b", "c", "b")
    )
    pinned: dict[str, int] = {}
    plan = crossmatch_work.plan_outcome

    def looked(*given: Any) -> int:
        for name in "abc":
            pins = Storage.at(warehouse / "catalogs" / name).list("_versions/pins", recursive=True)
            pinned[name] = len(list(pins))
        return plan(*given)

    monkeypatch.setattr(crossmatch_work, "plan_outcome", looked)
    in_process.match(folder)
    assert min(pinned[name] for name in "abc") >= 1
    assert Path(folder.uri, "join", "margin_1", "files.parquet").exists()
    assert not Path(folder.uri, "join", "margin").exists()


def test_a_new_version_of_any_side_is_another_input(warehouse: Path) -> None:
    in_process.publish_match(start(warehouse))
    assert told(start(warehouse, run_id="second")).unchanged_version == 1
    assert told(start(warehouse, run_id="third", radius_arcsec=50)).unchanged_version is None
    opened(warehouse, "c").build_margin(130)
    folder = start(warehouse, run_id="fourth")
    assert told(folder).unchanged_version is None
    assert told(folder).further[0].version == 2
    assert not told(folder).further[0].builds_margin


def test_a_run_that_was_frozen_for_two_catalogs_is_read(warehouse: Path) -> None:
    """As a library that knew no further sides has left it."""
    file = warehouse.parent / "a_x_b.yaml"
    file.write_text(SPEC[: SPEC.index("further:")].replace("a_x_all", "a_x_b"))
    folder = in_process.start_match(warehouse, file)
    frozen = json.loads(folder.document(FROZEN))
    del frozen["further"], frozen["spec"]["further"]
    folder.storage.write(FROZEN, json.dumps(frozen).encode())
    told = frozen_join(folder)
    assert isinstance(told, FrozenCrossmatch)
    assert [Path(side.uri).name for side in told.sides] == ["a", "b"]
    in_process.publish_match(folder)
    assert opened(warehouse, "a_x_b").metadata.total_rows > 100


def test_a_side_without_a_margin_or_a_version_is_refused(warehouse: Path) -> None:
    with pytest.raises(SpecError, match=r"catalog c has no margin of 1[0-9.]+ arcsec"):
        start(warehouse, missing_margin="refuse")
    shutil.rmtree(warehouse / "catalogs" / "c")
    with pytest.raises(CatalogNotFoundError, match="c"):
        start(warehouse)


def test_an_association_joins_two_catalogs(warehouse: Path) -> None:
    with pytest.raises(
        SpecError, match="association: it joins two catalogs, and with 'further' there are more"
    ):
        start(warehouse, "association: {left: id, right: id}\n")


def test_a_spec_of_two_catalogs_keeps_its_fingerprint() -> None:
    plain = {
        "name": "s",
        "type": "crossmatch",
        "left": {"catalog": "a"},
        "right": {"catalog": "b"},
        "radius_arcsec": 1,
    }
    two = CrossmatchSpec.model_validate(plain)
    assert "further" not in two.fingerprint_text()
    more = {"further": [{"right": {"catalog": "c"}, "radius_arcsec": 2}]}
    three = CrossmatchSpec.model_validate(plain | more)
    assert '"further"' in three.fingerprint_text()
    assert three.follows == ("a", "b", "c")
    assert CrossmatchSpec.model_validate_json(three.model_dump_json()) == three
