"""Verification passes what is right, and tells all that is wrong, whoever does the work."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.catalog.checks.findings import ExpectedTotals, VerificationReport
from hipslake.catalog.checks.leaf_checks import verify_partition
from hipslake.catalog.checks.version_checks import Verification
from hipslake.catalog.metadata import Increment
from hipslake.catalog.metadata.increments import Cell
from hipslake.catalog.verification import verify_catalog
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import VerificationError
from hipslake.storage.folder import Storage

from tests.catalog.little import sky, write_little
from tests.catalog.publishing import SHAPES, Published, publish
from tests.catalog.verifying import K, column_set, kinds, leaves, local, of_kind, rewrite, verify


def test_what_was_published_is_right(published: Published) -> None:
    report = verify(published, expected=ExpectedTotals(rows_read=3000))
    assert report.problems == ()
    assert report.ok
    report.raise_if_failed()
    assert (report.catalog, report.version, report.rows) == ("stars", 1, 3000)
    assert report.files == sum(group.leaves for group in published.metadata.groups)
    assert report.bytes == published.metadata.total_bytes
    assert Catalog.open(published.storage.uri()).verify(workers=1).ok


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("unit", "frame"),
    [
        ("deg", "icrs"),
        ("rad", "icrs"),
        ("deg", "galactic"),
        ("rad", "galactic"),
        ("deg", "fk5"),
        ("rad", "fk5"),
    ],
)
@pytest.mark.parametrize("layout", ["hats", "hipscat"])
def test_positions_of_every_unit_and_frame_are_held_against_the_index(
    tmp_path: Path, unit: str, frame: str, layout: str
) -> None:
    from astropy.coordinates import SkyCoord

    lon, lat = sky(500)
    lon[:50] -= 360
    lon[50:90] += 360
    icrs = SkyCoord(lon, lat, unit="deg", frame=frame).icrs
    ra, dec = (lon, lat) if frame == "icrs" else (icrs.ra.deg, icrs.dec.deg)
    scale = np.pi / 180 if unit == "rad" else 1.0
    source = pa.table({"l": lon * scale, "b": lat * scale})
    storage = Storage.at(tmp_path)
    position = {"ra": "l", "dec": "b", "unit": unit, "frame": frame}
    metadata = write_little(storage, source, (ra, dec), position=position, layout=layout)
    published = Published(storage, metadata, source, (ra, dec))
    assert verify(published).problems == ()

    moved = rewrite(
        published, {("main", 2): column_set("b", lambda b: np.append(b[:1] + 1e-6 * scale, b[1:]))}
    )
    [message] = of_kind(verify(moved), K.INDEX)
    assert message.startswith("1 row: _healpix_29 is not where l, b are; the first: row 0 has ")
    if metadata.position.icrs_ra == "ra_icrs":
        moved = rewrite(published, {("main", 2): column_set("ra_icrs", lambda a: a + 0.01)})
        [message] = of_kind(verify(moved), K.POSITION)
        assert "ra_icrs, dec_icrs are not the ICRS position of l, b" in message


def test_rounding_at_a_pixel_border_is_no_problem(single: Published) -> None:
    """Another processor's sine may put a position on the other side of a border, not a milliarcsecond off."""

    def nudge(values: np.ndarray) -> np.ndarray:
        return np.nextafter(values, np.inf)

    assert verify(rewrite(single, {("main", 0): column_set("ra", nudge)})).ok


def test_a_position_off_the_sky_is_found(single: Published) -> None:
    broken = rewrite(single, {("main", 1): column_set("dec", lambda d: np.append([np.nan, 91.0], d[2:]))})
    [message] = of_kind(verify(broken), K.POSITION)
    assert message.startswith("2 rows: ra, dec are not on the sky; the first: row 0 has ")


def test_all_problems_are_listed_and_the_error_says_where_and_how_to_mend(published: Published) -> None:
    paths = [leaf["path"] for leaf in leaves(published)]
    for path in paths:
        published.storage.delete(path)
    report = verify(published)
    assert [problem.path for problem in report.problems] == paths
    with pytest.raises(VerificationError) as caught:
        report.raise_if_failed()
    message = str(caught.value)
    assert f"catalog stars, version 1: {len(paths)} problem" in message
    assert f"{paths[0]}: missing file: metadata.json names the file, but it is not there; restore" in message
    assert len(message.splitlines()) <= 22
    assert VerificationReport.model_validate_json(report.model_dump_json()) == report


def test_the_outcome_does_not_depend_on_the_number_of_threads(grouped: Published) -> None:
    for leaf in leaves(grouped)[::2]:
        path = local(grouped, leaf["path"])
        path.write_bytes(path.read_bytes()[:-9])
    one, many = (verify(grouped, engine=ThisProcess(cores)) for cores in (1, 7))
    assert one.model_copy(update={"seconds": 0.0}) == many.model_copy(update={"seconds": 0.0})


def test_a_leaf_can_be_verified_in_another_process(grouped: Published) -> None:
    """A Spark task gets the rules and the partition pickled, and its findings travel back."""
    verification = Verification(grouped.storage, grouped.metadata)
    for group, partition in verification.leaves():
        given = pickle.loads(pickle.dumps((grouped.storage, verification.rules(group), partition)))
        verification.add(pickle.loads(pickle.dumps(verify_partition(*given))))
    report = verification.report()
    assert report.ok
    assert (report.rows, report.files) == (3000, verification.files)


def test_rows_of_several_increments_are_told_apart(tmp_path: Path) -> None:
    published = publish(tmp_path, **SHAPES["hipscat, two groups"])

    def renumber(rows: np.ndarray) -> np.ndarray:
        return np.where(rows >= 1000, (1 << 40) | (rows - 1000), rows)

    changes = {
        (group, number): column_set("_row", renumber)
        for group in ("main", "details")
        for number in range(len(leaves(published, group)))
    }
    [whole] = published.metadata.increments

    def part(ordinal: int, rows: int) -> Increment:
        sources = whole.sources.model_copy(update={"rows": rows})
        where = {"coverage": None, "leaves": (Cell(order=0, npix=0, rows=rows),)}
        return whole.model_copy(update={"ordinal": ordinal, "rows": rows, "sources": sources, **where})

    increments = (part(0, 1000), part(1, 2000))
    both = rewrite(published, changes, increments=increments)
    assert verify(both).problems == ()
    short = both.metadata.model_copy(
        update={"increments": (increments[0], increments[1].model_copy(update={"rows": 1999}))}
    )
    assert {K.TOTALS, K.ROW_IDENTITY} <= kinds(verify_catalog(both.storage, short))


def test_rejected_rows_leave_gaps_in_the_row_numbers(grouped: Published) -> None:
    def later(rows: np.ndarray) -> np.ndarray:
        return rows + 5

    changes = {
        (group, number): column_set("_row", later)
        for group in ("main", "details")
        for number in range(len(leaves(grouped, group)))
    }
    [increment] = grouped.metadata.increments
    rejects = increment.rejects.model_copy(update={"rows": 5, "reasons": {"position null or NaN": 5}})
    sources = increment.sources.model_copy(update={"rows": 3005})
    increment = increment.model_copy(update={"rejects": rejects, "sources": sources})
    shifted = rewrite(grouped, changes, increments=(increment,))
    assert verify(shifted, expected=ExpectedTotals(rows_read=3005, rows_rejected=5)).problems == ()
