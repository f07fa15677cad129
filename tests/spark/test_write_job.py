"""Histogram, plan and write: what is published is what was read, in leaves as small as asked for."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hipslake.errors import InputError, PlanError, VerificationError
from hipslake.steps.frozen_run import FrozenInputs
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import write_table
from pyspark.sql import SparkSession

from tests.spark.running import Run, land, pixels, read_file, same_rows, smallest_leaves, stars, uniform
from tests.spark.skies import SKIES

pytestmark = pytest.mark.sampled(2)

TWO_GROUPS = [
    {"name": "main", "columns": ["id", "ra", "dec"], "threshold": "150 rows"},
    {"name": "photo", "columns": "*", "threshold": "24 kB"},
]


def check_leaves(run: Run, group: str) -> None:
    """Every file of a group: rows of its pixel only, along the curve, and none empty."""
    for (order, npix), path in run.leaf_files(group).items():
        table = read_file(path)
        h29 = table["_healpix_29"].to_numpy()
        assert len(h29)
        assert (h29 >> 2 * (29 - order) == npix).all()
        assert (np.diff(h29) >= 0).all()
        assert (h29 == pixels(table["ra"].to_numpy(), table["dec"].to_numpy())).all()


@pytest.mark.parametrize("sky", SKIES)
def test_published_is_read_and_no_leaf_is_over_its_threshold(
    spark: SparkSession, tmp_path: Path, sky: str
) -> None:
    ra, dec = SKIES[sky](6000)
    rng = np.random.default_rng(2)
    source = stars(ra, dec, noise=rng.random(6000), text=[f"{n:x}" * (n % 9) for n in range(6000)])
    land(tmp_path, source)
    run = Run.start(spark, tmp_path, column_groups=TWO_GROUPS)
    report = run.ingest(
        count={"split_target_bytes": 50_000}, write={"target_bytes": 60_000, "block_bytes": 9000}
    )
    assert (report.rows_in, report.rows_out) == (6000, 6000)

    main, photo = (run.published(group).sort_by("_row") for group in ("main", "photo"))
    for table in (main, photo):
        assert (table["_row"].to_numpy() == np.arange(6000)).all()  # the source's own order
    assert same_rows(main.drop_columns(["_healpix_29", "_row"]), source.select(["id", "ra", "dec"]))
    joined = photo.drop_columns(["_healpix_29", "_row"]).append_column("id", main["id"])
    assert same_rows(joined, source)
    for group in ("main", "photo"):
        check_leaves(run, group)

    per_leaf = {leaf: read_file(path).num_rows for leaf, path in run.leaf_files("main").items()}
    assert per_leaf == smallest_leaves(pixels(ra, dec), 150)
    sizes = [path.stat().st_size for path in run.leaf_files("photo").values()]
    assert max(sizes) <= 24_000
    assert len(sizes) > 10
    assert report.partitions == {"main": len(per_leaf), "photo": len(sizes)}


def test_leaf_files_are_the_same_bytes_whatever_the_workers_did(spark: SparkSession, tmp_path: Path) -> None:
    """However Spark cuts the work; and without Spark, as ingests below the size for it are done."""
    ra, dec = uniform(900)
    ra[280:320], dec[280:320] = 15.0, 25.0  # equal keys, from two files and many blocks
    ra[750:780], dec[750:780] = 15.0, 25.0
    ra[7] = np.nan
    words = pa.array([f"word {n % 17}" for n in range(900)]).dictionary_encode()
    source = stars(ra, dec, word=words, text=["t" * (n // 30) for n in range(900)])
    land(tmp_path, source, row_group_rows=110)
    contents, tasks = [], []
    for run_id, session, split, target, block in [
        ("plain", spark, 1 << 28, 1 << 27, 1 << 24),
        ("fine", spark, 1, 1, 1),
        ("mixed", spark, 9000, 12_000, 3000),
        ("here", None, 1 << 28, 1 << 27, 1 << 24),
        ("here_finely", None, 9000, 12_000, 3000),
    ]:
        run = Run.start(
            session,
            tmp_path,
            run_id=run_id,
            column_groups=[
                {"name": "main", "columns": "*", "threshold": "100 rows"},
                {"name": "words", "columns": ["word", "text"], "threshold": "9 kB"},
            ],
            parquet={"row_group_rows": 30},
            bad_rows={"policy": "quarantine"},
        )
        report = run.ingest(
            count={"split_target_bytes": split}, write={"target_bytes": target, "block_bytes": block}
        )
        tasks.append((len(run.table(RunFolder.SPLITS)), report.tasks))
        contents.append({name: data for name, data in run.contents().items() if not name.startswith("_")})
    assert len(set(tasks[:3])) == 3
    assert len(contents[0]) > 15
    for other in contents[1:]:
        assert other.keys() == contents[0].keys()
        assert [name for name in other if other[name] != contents[0][name]] == []


def test_a_leaf_that_comes_out_too_large_is_split_again(spark: SparkSession, tmp_path: Path) -> None:
    """The first rows of every file weigh little; the others, which nobody weighed before, a lot."""
    rows = 20_000
    ra, dec = SKIES["even"](rows)
    rng = np.random.default_rng(5)
    texts = ["" if n < 16_400 else rng.bytes(60).hex() for n in range(rows)]
    land(tmp_path, stars(ra, dec, text=texts), files=1, row_group_rows=5000)
    run = Run.start(spark, tmp_path, threshold="20 kB")
    report = run.ingest()
    assert report.split_again > 0
    assert max(path.stat().st_size for path in run.leaf_files().values()) <= 20_000
    assert run.published().num_rows == rows
    check_leaves(run, "main")


def test_a_threshold_below_a_file_of_one_row_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    land(tmp_path, stars(*uniform(50)), files=1)
    run = Run.start(spark, tmp_path, threshold="500 B")
    run.count()
    with pytest.raises(PlanError, match=r"one row.*500 B"):
        run.plan()


@pytest.mark.parametrize(
    ("rows", "width", "highest", "message"),
    [
        (1, 40_000, 29, r"1 rows make a file of \d+ bytes, over the threshold of 12000.*one row"),
        (300, 200, 29, r"300 rows .*may not be split below order 29"),
        (300, 200, 7, r"300 rows .*may not be split below order 7.*highest_order"),
    ],
)
def test_rows_that_fit_no_leaf_fail_the_write(
    spark: SparkSession, tmp_path: Path, rows: int, width: int, highest: int, message: str
) -> None:
    """One wide row, or rows on one place: only the real file tells."""
    ra, dec = uniform(17_000)
    ra[-rows:], dec[-rows:] = 15.0, 25.0
    rng = np.random.default_rng(5)
    texts = ["" if n < len(ra) - rows else rng.bytes(width // 2).hex() for n in range(len(ra))]
    land(tmp_path, stars(ra, dec, text=texts), files=1)
    run = Run.start(spark, tmp_path, threshold="12 kB", highest_order=highest, mapping_order=14)
    run.count()
    run.plan()
    with pytest.raises(PlanError, match=message):
        run.write()


def test_rejects_are_kept_whole_with_reason_and_place(spark: SparkSession, tmp_path: Path) -> None:
    ra, dec = (list(values) for values in uniform(2000))
    bad = {3: (None, 0.0), 700: (1.0, -91.0), 701: (np.inf, 0.0), 1999: (-361.0, 0.0), 1500: (np.nan, None)}
    for at, (lon, lat) in bad.items():
        ra[at], dec[at] = lon, lat
    source = pa.table(
        {
            "id": range(2000),
            "ra": pa.array(ra, pa.float64()),
            "dec": pa.array(dec, pa.float64()),
            "tags": [[str(n)] * (n % 3) for n in range(2000)],
        }
    )
    land(tmp_path, source, files=2, row_group_rows=130)
    run = Run.start(spark, tmp_path, threshold="100 rows", bad_rows={"policy": "quarantine"})
    report = run.ingest(count={"split_target_bytes": 4000}, write={"block_bytes": 2000})
    assert (report.rows_in, report.rows_out, report.rows_rejected) == (2000, 1995, 5)
    assert sorted(report.rejected.values()) == [1, 1, 1, 2]
    rejects = pa.concat_tables(read_file(path) for path in (run.root / "_rejects").iterdir())
    assert report.rejects_path == f"{run.root.name}/_rejects"
    added = ["_reject_reason", "_reject_file", "_reject_row"]
    rejects = rejects.sort_by("id")
    assert rejects["id"].to_pylist() == sorted(bad)
    assert same_rows(rejects.drop_columns(added), source.take(sorted(bad)))
    assert [reason.split(" ")[0] for reason in rejects["_reject_reason"].to_pylist()] == [
        "position", "dec", "position", "position", "ra",
    ]  # fmt: skip
    files = [Path(uri).name for uri in rejects["_reject_file"].to_pylist()]
    assert files == ["part-0.parquet"] * 3 + ["part-1.parquet"] * 2
    assert rejects["_reject_row"].to_pylist() == [4, 701, 702, 501, 1000]
    good = source.take(np.setdiff1d(np.arange(2000), list(bad)))
    assert same_rows(run.published().drop_columns(["_healpix_29"]), good)


@pytest.mark.parametrize("frame", ["radians", "galactic"])
def test_positions_in_other_units_and_frames_are_placed_in_icrs(
    spark: SparkSession, tmp_path: Path, frame: str
) -> None:
    from astropy import units
    from astropy.coordinates import SkyCoord

    lon, lat = uniform(1500)
    if frame == "radians":
        given, icrs, position = (np.radians(lon), np.radians(lat)), (lon, lat), {"unit": "rad"}
    else:
        there = SkyCoord(lon * units.deg, lat * units.deg, frame="galactic").icrs
        given, icrs, position = (lon, lat), (there.ra.deg, there.dec.deg), {"frame": "galactic"}
    source = stars(*given)
    land(tmp_path, source)
    run = Run.start(spark, tmp_path, threshold="100 rows", position={"ra": "ra", "dec": "dec"} | position)
    run.ingest()
    published = run.published()
    assert same_rows(published.drop_columns(["_healpix_29", "ra_icrs", "dec_icrs"]), source)
    order = np.argsort(source["id"].to_numpy())
    published = published.sort_by("id")
    np.testing.assert_allclose(published["ra_icrs"].to_numpy(), icrs[0][order], rtol=0, atol=1e-11)
    np.testing.assert_allclose(published["dec_icrs"].to_numpy(), icrs[1][order], rtol=0, atol=1e-11)
    found = pixels(published["ra_icrs"].to_numpy(), published["dec_icrs"].to_numpy())
    assert (published["_healpix_29"].to_numpy() == found).all()


def test_a_table_of_500_columns(spark: SparkSession, tmp_path: Path) -> None:
    ra, dec = uniform(1200)
    rng = np.random.default_rng(8)
    more = {f"c{n:03}": rng.normal(0, 1, 1200).astype("f4" if n % 2 else "f8") for n in range(496)}
    source = stars(ra, dec, **more)
    assert source.num_columns == 500
    land(tmp_path, source)
    run = Run.start(spark, tmp_path, threshold="300 rows")
    run.ingest(write={"block_bytes": 200_000})
    assert same_rows(run.published().drop_columns(["_healpix_29"]), source)
    assert {leaf: read_file(path).num_rows for leaf, path in run.leaf_files().items()} == smallest_leaves(
        pixels(ra, dec), 300
    )


@pytest.fixture(scope="module")
def planned(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that is counted and planned, ready to write."""
    place = tmp_path_factory.mktemp("planned")
    land(place, stars(*uniform(900)))
    run = Run.start(spark, place, threshold="100 rows")
    run.count()
    run.plan()
    return run


@pytest.mark.parametrize("change", ["touched", "replaced", "deleted", "truncated"])
def test_a_source_file_changed_in_mid_run_is_an_error(planned: Run, change: str) -> None:
    path = Path(FrozenInputs.of(planned.folder).files[1].uri)
    data, stamp = path.read_bytes(), path.stat().st_mtime_ns
    if change == "touched":
        os.utime(path, ns=(1, 1))
    elif change == "replaced":
        path.write_bytes(path.with_name("part-2.parquet").read_bytes())
    elif change == "deleted":
        path.unlink()
    else:
        path.write_bytes(data[:-100])
    with pytest.raises(InputError, match=r"part-1\.parquet was (changed|deleted) after") as caught:
        planned.write()
    assert not caught.value.retryable
    path.write_bytes(data)
    os.utime(path, ns=(stamp, stamp))


def test_a_write_done_again_leaves_the_same_files_and_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    ra, dec = uniform(1000)
    ra[5] = np.nan
    land(tmp_path, stars(ra, dec))
    run = Run.start(spark, tmp_path, threshold="100 rows", bad_rows={"policy": "quarantine"})
    first_report = run.ingest()
    first = run.contents()
    leaf = next(iter(run.leaf_files().values()))
    leaf.write_bytes(b"half a file")
    leaf.with_name("Npix=99999.parquet").write_bytes(leaf.read_bytes())
    leaf.with_name(f".{leaf.name}.1234.tmp").write_bytes(b"of an attempt that was killed")
    (run.root / "_rejects" / "split-00000099-row-000000000000.parquet").write_bytes(b"")
    second_report = run.write(target_bytes=20_000, block_bytes=5000)
    assert run.contents() == first
    assert second_report.model_dump(exclude={"seconds", "tasks", "finished"}) == first_report.model_dump(
        exclude={"seconds", "tasks", "finished"}
    )


def test_rows_that_vanish_are_noticed_before_anything_counts(planned: Run) -> None:
    """A plan that does not cover the sky must not lose rows in silence.

    Nor may one be taken that a worker process still has of the writes of the tests above.
    """
    plan = planned.table(RunFolder.PLAN)
    write_table(planned.folder.storage, RunFolder.PLAN, plan.slice(1))
    with pytest.raises(VerificationError, match="900 rows were counted"):
        planned.write()
    write_table(planned.folder.storage, RunFolder.PLAN, plan)


def test_layout_hipscat_has_the_groups_side_by_side(spark: SparkSession, tmp_path: Path) -> None:
    source = stars(*uniform(1500))
    land(tmp_path, source)
    groups = [
        {"name": "main", "columns": "*", "threshold": "100 rows"},
        {"name": "details", "columns": ["mag"], "threshold": "400 rows"},
    ]
    run = Run.start(spark, tmp_path, layout="hipscat", column_groups=groups)
    run.ingest()
    main, details = (
        pa.concat_tables(read_file(path) for path in run.root.glob(f"Norder=*/Npix=*/{group}.parquet"))
        for group in ("main", "details")
    )
    assert main.column_names == ["_healpix_29", "id", "ra", "dec", "_row"]
    assert details.column_names == ["_healpix_29", "mag", "_row"]
    joined = main.join(details.drop_columns(["_healpix_29"]), "_row").drop_columns(["_healpix_29", "_row"])
    assert same_rows(joined, source)
