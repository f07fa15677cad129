"""A cross-match of a spec whose radius is said by errors: what is frozen, and what is published."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipslake import Catalog, publish
from hipslake.errors import SpecError
from hipslake.specs.error_columns import ErrorRadius
from hipslake.steps.join.frozen_join import FrozenCrossmatch
from hipslake.steps.join.request import FROZEN, ResolveCrossmatchReport
from hipslake.steps.run import RunFolder

from tests.catalog.matching import pairs_of, published
from tests.catalog.test_error_matches import table_of, two_sides
from tests.steps import in_process

pytestmark = pytest.mark.usefixtures("large_sides")

SPEC = """\
name: a_x_b
type: crossmatch
left: {catalog: a}
right: {catalog: b}
radius:
  left: {semi_major: major, semi_minor: minor, position_angle: angle, unit: mas}
  right: {error: major, unit: mas}
  sigmas: 1.5
neighbours: best
nearness: sigmas
suffixes: ["", _b]
how: outer
threshold: 40 rows
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with two crowded catalogs, of which the right one has no margin."""
    sides = two_sides(21, (0.0, -45.0), 5.0, True)
    place = tmp_path_factory.mktemp("errors")
    for name, side in zip("ab", sides, strict=True):
        published(place / "warehouse" / "catalogs", name, table_of(side), threshold="40 rows")
    (place / "a_x_b.yaml").write_text(SPEC)
    return place / "warehouse"


def start(lake: Path, run_id: str, **fields: object) -> RunFolder:
    return in_process.start_match(
        lake, lake.parent / "a_x_b.yaml", run_id, missing_margin="build", force=True, **fields
    )


def test_the_outcome_of_a_spec_is_that_of_the_library(lake: Path) -> None:
    folder = start(lake, "spec")
    frozen = folder.read(FROZEN, FrozenCrossmatch)
    told = folder.read(RunFolder.report_path("resolve"), ResolveCrossmatchReport)
    # A bound on every pair: 10 arcseconds are the largest error of either side.
    assert frozen.radius_arcsec is not None
    assert 10.0 < frozen.radius_arcsec <= 1.5 * 10.0 * 2**0.5 * 1.5
    assert told.reach_arcsec == frozen.radius_arcsec == frozen.builds_margin
    in_process.publish_match(folder)
    found = Catalog.open(lake / "catalogs" / "a_x_b")
    found.verify().raise_if_failed()
    assert found.metadata.description.endswith(
        "within 1.5 times the errors (quadrature: major, minor, angle of the left and major of the right)"
    )
    a, b = (Catalog.open(lake / "catalogs" / name) for name in "ab")
    b.build_margin(30.0)
    spec = frozen.spec
    expected = a.crossmatch(
        Catalog.open(b.uri),
        radius=spec.radius,
        neighbours="best",
        how="outer",
        nearness="sigmas",
        suffixes=("", "_b"),
    )
    rows = found.read()
    assert rows.to_pandas()[expected.schema.names].equals(expected.to_pandas())
    assert len([pair for pair in pairs_of(rows) if None not in pair]) > 60


def test_a_run_may_have_other_sigmas(lake: Path) -> None:
    radius = start(lake, "sigmas", sigmas=0.5).read(FROZEN, FrozenCrossmatch).radius_arcsec
    whole = start(lake, "whole").read(FROZEN, FrozenCrossmatch).radius_arcsec
    assert radius is not None
    assert whole == pytest.approx(3 * radius)
    with pytest.raises(SpecError, match=r"radius_arcsec: give it for all pairs, .*; not both"):
        start(lake, "arcsec", radius_arcsec=3.0)
    plain = {"name": "plain", "left": "a", "right": "b", "radius_arcsec": 1}
    with pytest.raises(SpecError, match="plain: sigmas: the spec has one radius for all pairs"):
        publish(plain, warehouse=lake, sigmas=2)


def test_what_a_spec_does_not_say_is_no_part_of_its_fingerprint(lake: Path) -> None:
    spec = start(lake, "fingerprint").read(FROZEN, FrozenCrossmatch).spec
    assert '"radius":{' in spec.fingerprint_text()
    plain = spec.model_copy(update={"radius": None, "radius_arcsec": 1.0, "nearness": None})
    assert '"radius":' not in plain.fingerprint_text()
    assert "nearness" not in plain.fingerprint_text()


def test_a_radius_reads_as_it_was_written() -> None:
    radius = ErrorRadius.model_validate({"left": "err", "sigmas": 3})
    assert ErrorRadius.model_validate(radius.model_dump(mode="json")) == radius
    assert radius.left is not None
    assert (radius.left.error, radius.left.unit) == ("err", "arcsec")


def test_tasks_of_any_size_write_the_same(lake: Path) -> None:
    digests = []
    for run_id, knobs in (("large", {}), ("small", {"task_rows": 20})):
        folder = start(lake, run_id)
        in_process.match(folder, **knobs)
        in_process.check(folder)
        in_process.commit(folder)
        found = Catalog.open(lake / "catalogs" / "a_x_b")
        digests.append(found.metadata.partitions(None, found.storage)["sha256"].to_pylist())
    assert digests[0] == digests[1] != []
