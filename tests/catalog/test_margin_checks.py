"""Verification of margins: what a writer with a bug would leave, in files whose checksums are right."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.catalog.checks import margin_checks
from hipslake.catalog.checks.findings import ProblemKind
from hipslake.catalog.leaf import encode_leaf, write_options
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.verification import verify_catalog
from hipslake.steps.upkeep import verify
from hipslake.steps.upkeep.request import VerifyRequest

from tests.catalog.publishing import publish

pytestmark = pytest.mark.sampled(2)

Change = Callable[[pa.Table, pa.Table], pa.Table | None]


@pytest.fixture(params=["hats", "hipscat"])
def catalog(tmp_path: Path, request: pytest.FixtureRequest) -> Catalog:
    published = publish(tmp_path, layout=request.param)
    return Catalog(published.storage, published.metadata).build_margin(5_000)


def rewritten(catalog: Catalog, change: Change) -> CatalogMetadata:
    """The metadata after the fullest margin file was changed, and described as it then is.

    `change` is told the file's rows and those of the whole catalog; it gives the rows to write, or None.
    """
    [margin] = catalog.metadata.margins
    parts = list(margin.partitions or ())
    at = max(range(len(parts)), key=lambda place: parts[place].rows)
    path = Path(catalog.uri, parts[at].path)
    schema = catalog.metadata.schema_of()
    rows = change(pq.ParquetFile(path).read().cast(schema), catalog.read())
    if rows is None:
        path.unlink()
        del parts[at]
    else:
        options = write_options(catalog.metadata.groups[0].parquet, schema)
        data = encode_leaf([rows], schema, options).to_pybytes()
        path.write_bytes(data)
        parts[at] = parts[at].model_copy(
            update={"rows": len(rows), "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        )
    order, npix = np.array([[part.order, part.npix] for part in parts]).T
    from hipslake.catalog.partitions import pixel_ranges

    changed = margin.model_copy(
        update={
            "rows": sum(part.rows for part in parts),
            "bytes": sum(part.bytes for part in parts),
            "files": len(parts),
            "pixels": pixel_ranges(order, npix),
            "partitions": tuple(parts),
        }
    )
    for name in ("hats.properties", "properties", "partition_info.csv", "dataset/_metadata"):
        Path(catalog.uri, catalog.metadata.write_id, margin.name, name).unlink(missing_ok=True)
    return catalog.metadata.model_copy(update={"margins": (changed,)})


def kinds(catalog: Catalog, metadata: CatalogMetadata) -> set[ProblemKind]:
    """The kinds of problem, HATS files left out: these say what the margin was before it was changed."""
    found = {problem.kind for problem in verify_catalog(catalog.storage, metadata).problems}
    return found - {ProblemKind.VIEW}


def without_first(rows: pa.Table, _: pa.Table) -> pa.Table:
    return rows.slice(1)


def with_another_value(rows: pa.Table, _: pa.Table) -> pa.Table:
    ids = rows["id"].to_numpy().copy()
    ids[0] += 1
    return rows.set_column(rows.schema.get_field_index("id"), rows.schema.field("id"), pa.array(ids))


def with_a_far_row(rows: pa.Table, everything: pa.Table) -> pa.Table:
    """A row of the catalog that lies as far away along the curve as can be."""
    h29 = rows["_healpix_29"].to_numpy()
    places = np.argsort(np.abs(everything["_healpix_29"].to_numpy() - h29[0]))
    return pa.concat_tables([rows, everything.take(pa.array(places[-1:]))]).sort_by("_healpix_29")


def with_a_row_twice(rows: pa.Table, _: pa.Table) -> pa.Table:
    return pa.concat_tables([rows.slice(0, 1), rows])


def with_a_row_of_no_leaf(rows: pa.Table, _: pa.Table) -> pa.Table:
    from hipslake.sphere.pixels import order29

    place = pa.array(order29([0.0], [89.9999999]))
    strange = rows.slice(0, 1).set_column(0, rows.schema.field(0), place)
    strange = strange.set_column(2, rows.schema.field(2), pa.array([0.0]))
    strange = strange.set_column(3, rows.schema.field(3), pa.array([89.9999999]))
    return pa.concat_tables([rows, strange]).sort_by("_healpix_29")


def test_good_margins_are_found_good(catalog: Catalog) -> None:
    assert kinds(catalog, catalog.metadata) == set()
    assert kinds(catalog, rewritten(catalog, lambda rows, _: rows)) == set()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "change", [without_first, with_another_value, with_a_far_row, with_a_row_twice, with_a_row_of_no_leaf]
)
def test_rows_that_are_not_those_of_the_leaves_are_told(catalog: Catalog, change: Change) -> None:
    assert ProblemKind.MARGIN in kinds(catalog, rewritten(catalog, change))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("change", [lambda rows, _: rows, with_another_value, with_a_far_row])
def test_files_too_large_to_be_kept_in_memory_are_judged_alike(
    catalog: Catalog, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = rewritten(catalog, change)
    kept = verify_catalog(catalog.storage, metadata).problems
    monkeypatch.setattr(margin_checks, "LARGEST_FILE", 0)
    assert verify_catalog(catalog.storage, metadata).problems == kept


def test_a_margin_without_a_file_for_a_pixel_is_told(catalog: Catalog) -> None:
    assert kinds(catalog, rewritten(catalog, lambda *_: None)) == {ProblemKind.MARGIN}


def test_rows_inside_of_the_pixel_are_told(catalog: Catalog) -> None:
    def inside(rows: pa.Table, everything: pa.Table) -> pa.Table:
        [margin] = catalog.metadata.margins
        part = max(margin.partitions or (), key=lambda each: each.rows)
        start, stop = part.npix << 2 * (29 - part.order), (part.npix + 1) << 2 * (29 - part.order)
        h29 = everything["_healpix_29"].to_numpy()
        own = everything.filter(pa.array((h29 >= start) & (h29 < stop)))
        return pa.concat_tables([rows, own]).sort_by("_healpix_29")

    assert ProblemKind.MEMBERSHIP in kinds(catalog, rewritten(catalog, inside))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("field", ["rows", "bytes", "files", "pixels"])
def test_sums_and_pixels_that_are_not_those_of_the_files_are_told(catalog: Catalog, field: str) -> None:
    [margin] = catalog.metadata.margins
    wrong = {1: "0"} if field == "pixels" else getattr(margin, field) + 1
    metadata = catalog.metadata.model_copy(update={"margins": (margin.model_copy(update={field: wrong}),)})
    assert kinds(catalog, metadata) & {ProblemKind.TOTALS, ProblemKind.METADATA}


def test_a_damaged_margin_file_is_told(catalog: Catalog) -> None:
    [margin] = catalog.metadata.margins
    path = Path(catalog.uri, (margin.partitions or ())[0].path)
    path.write_bytes(path.read_bytes()[:-9])
    assert {ProblemKind.SIZE, ProblemKind.CHECKSUM} <= kinds(catalog, catalog.metadata)
    path.unlink()
    assert ProblemKind.MISSING_FILE in kinds(catalog, catalog.metadata)


def test_a_published_version_with_margins_is_verified_by_tasks_too(catalog: Catalog, tmp_path: Path) -> None:
    from hipslake.engine.this_process import ThisProcess
    from hipslake.errors import VerificationError

    run = str(tmp_path / "run")
    Path(run).mkdir()
    request = VerifyRequest(run_uri=run, catalog_uri=catalog.uri)
    assert verify.run(request, ThisProcess()).rows_out == catalog.metadata.total_rows
    metadata = rewritten(catalog, without_first)
    Path(catalog.uri, "_versions", f"{metadata.version:08}.json").write_bytes(metadata.to_json())
    Path(catalog.uri, "metadata.json").write_bytes(metadata.to_json())
    with pytest.raises(VerificationError, match="margin"):
        verify.run(request, ThisProcess())
