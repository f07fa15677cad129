"""The catalogs page measured: in headless Chromium without a GPU, and its endpoints on 4 million partitions.

`python -m benchmarks.sky` writes docs/benchmarks/sky.md. `--quick` leaves out cells of order 5 and 6.
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hipslake.catalog.describe import describe_group
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import PARTITION_SCHEMA
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.sphere.pixels import Pixel
from hipslake.sphere.sky_cells import MOST_CELLS, Footprint, gather
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog
from playwright.sync_api import Browser

from tests.catalog.little import WRITE
from tests.catalog.publishing import publish
from tests.web import made_up
from tests.web.browser import Sky, chromium, elsewhere, find_chromium, watched
from tests.web.oracle import PROJECTIONS, ROTATIONS, deep_sky, disagreeing, places, shares, whole_sky

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "sky.md"
PICKS = 10_000
LARGE = 4_000_000
STARS = 2_000_000
CONE_DEGREES = 2.0


class Figure(NamedTuple):
    """A figure, and the bar that it is held to."""

    what: str
    found: str
    wanted: str
    passed: bool


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out cells of order 5 and 6")
    arguments = parser.parse_args()
    executable = find_chromium()
    if executable is None:
        raise SystemExit("there is no chromium; HIPSLAKE_CHROMIUM names one")
    figures = server_figures()
    with chromium(executable) as browser:
        figures += browser_figures(browser, range(5 if arguments.quick else 7))
        version = browser.version
    text = markdown(figures, version)
    print(text)
    if not arguments.quick:
        PAGE.write_text(text)


def server_figures() -> list[Figure]:
    """The aggregation of 4 million partitions, and what the page's server needs for a catalog of so many."""
    sky = large_sky()
    seconds = best(lambda: gather(sky), 3)
    cells = gather(sky)
    exact = (
        int(cells.rows.sum()) == int(sky.rows.sum())
        and int(cells.bytes.sum()) == int(sky.bytes.sum())
        and int(cells.partitions.sum()) == len(sky.start)
    )
    partitions = f"{len(sky.start):,} partitions"
    figures = [
        Figure(
            f"cells of {partitions}",
            f"{len(cells.npix):,}",
            f"<= {MOST_CELLS:,}",
            len(cells.npix) <= MOST_CELLS,
        ),
        Figure("their rows, bytes and partitions", "exact" if exact else "wrong", "exact", exact),
        _below(f"seconds to gather {partitions}", seconds, 0.5, "{:.3f}"),
    ]
    from hipslake_airflow.web.catalog_store import CatalogStore, Layer

    with tempfile.TemporaryDirectory() as folder:
        publish_large(Path(folder) / "catalogs", sky)
        catalogs, layer = CatalogStore(folder), Layer("group", "main")
        begin = time.perf_counter()
        catalogs.cells("large", 1, layer)
        first = time.perf_counter() - begin
        again = best(lambda: gzip.compress(catalogs.cells("large", 1, layer), 5), 3)
        numbers = iter(range(12 << 8))
        tile = best(lambda: gzip.compress(catalogs.cells("large", 1, layer, Pixel(4, next(numbers))), 5), 20)
        numbers = iter(range(12 << 8))
        begin = time.perf_counter()
        catalogs.density("large", 1, 7, None)
        sky_first = time.perf_counter() - begin
        below = best(lambda: catalogs.density("large", 1, 10, Pixel(4, next(numbers))), 20)
    figures.append(Figure("seconds for the map, when it is asked for first", f"{first:.2f}", "", True))
    for what, found in (("the map", again), ("a tile not seen before", tile)):
        figures.append(
            _below(f"milliseconds for {what}, compressed, after that", 1000 * found, 300, "{:.1f}")
        )
    for what, found in (("the sky at order 7", sky_first), ("a pixel of order 4, at order 10", below)):
        figures.append(_below(f"milliseconds for the density of {what}", 1000 * found, 300, "{:.1f}"))
    return [*figures, *row_figures()]


def row_figures() -> list[Figure]:
    """How long the server reads for the rows of a cone, on a local disk."""
    from hipslake.catalog.bounded_rows import RowChoice
    from hipslake.sphere.regions import Cone
    from hipslake_airflow.web.catalog_store import CatalogStore
    from hipslake_airflow.web.row_data import columns_answer, read_rows

    with tempfile.TemporaryDirectory() as folder:
        publish(Path(folder) / "catalogs", rows=STARS, threshold="100000 rows")
        catalogs, cone = CatalogStore(folder), Cone(120, 10, CONE_DEGREES)

        def ask(choice: RowChoice) -> int:
            metadata, found = read_rows(catalogs, "stars", 1, choice, region=cone)
            columns_answer(metadata, found.table)
            return found.table.num_rows

        rows = ask(RowChoice(10_000))
        first = best(lambda: ask(RowChoice(1000)), 5)
        spread = best(lambda: ask(RowChoice(1000, spread=True)), 5)
    return [
        Figure(f"rows of {STARS:,} in a cone", f"{rows:,}", "> 1000", rows > 1000),
        _below("milliseconds for the first 1,000 of them", 1000 * first, 500, "{:.1f}"),
        _below("milliseconds for an even sample of 1,000 of them", 1000 * spread, 500, "{:.1f}"),
    ]


def browser_figures(browser: Browser, orders: range) -> list[Figure]:
    """How quick the map is, whether it picks what healpy does, and whether its cells have their areas."""
    skies = {
        "5,000": made_up.split_sky(5000),
        "50,000": made_up.split_sky(49_000),
        "deep": deep_sky(),
        **{f"order{order}": whole_sky(order) for order in orders},
    }
    figures = []
    with made_up.serving(skies) as address:
        sky = watched(browser)
        for name, ready, drag in (("5,000", 1000, 35), ("50,000", 2500, 100)):
            took = sorted(sky.show(address, name) for _ in range(3))[1]
            cells = f"{len(skies[name].start):,} cells"
            figures += [
                _below(f"{cells}: milliseconds until they are on the screen", took, ready),
                _below(f"{cells}: from frame to frame while dragging, p95", p95(sky.drag(90)), drag),
                _below(f"{cells}: milliseconds of hover, p95", p95(sky.hover(500)), 5, "{:.2f}"),
            ]
        for name in ("50,000", "deep"):
            sky.show(address, name)
            at = places(PICKS)
            wrong = disagreeing(sky.picks(at), at, skies[name])
            figures.append(
                Figure(f"{PICKS:,} picks unlike healpy's, sky '{name}'", str(wrong), "0", wrong == 0)
            )
        figures += [area_figure(sky, address, order) for order in orders]
        foreign = len(elsewhere(sky.asked, address))
        figures.append(Figure("requests to any other host", str(foreign), "0", foreign == 0))
        figures.append(Figure("errors of the page", str(len(sky.errors)), "0", not sky.errors))
    return figures


def area_figure(sky: Sky, address: str, order: int) -> Figure:
    """Areas of all cells of an order, under all projections and rotations, as shares of equal ones."""
    sky.show(address, f"order{order}")
    found = [
        shares(sky.areas(projection, rotation), order)
        for projection in PROJECTIONS
        for rotation in ROTATIONS.values()
    ]
    low, high = min(share.min() for share in found), max(share.max() for share in found)
    what = f"area of cells of order {order}, {len(found)} projections and rotations"
    return Figure(what, f"{low:.2f} to {high:.2f}", "0.2 to 3 shares", bool(low > 0.2 and high < 3))


def large_sky() -> Footprint:
    """Leaves of order 9 and 10, 4 million of them, with some rows each."""
    rng = np.random.default_rng(1)
    coarse = np.arange(12 << 18, dtype=np.int64) << 40
    divided = rng.random(len(coarse)) < (LARGE / len(coarse) - 1) / 3
    start = np.concatenate([coarse[~divided], (coarse[divided][:, None] + (np.arange(4) << 38)).ravel()])
    order = np.concatenate([np.full((~divided).sum(), 9), np.full(4 * divided.sum(), 10)]).astype(np.int8)
    along = np.argsort(start)
    rows = rng.integers(1, 1_000_000, len(start))
    return Footprint(start[along], order[along], rows, 120 * rows)


def publish_large(catalogs: Path, sky: Footprint) -> None:
    """Publish the metadata of a catalog with these leaves; its data files are not there, nor asked for."""
    small = publish(catalogs, rows=12)
    storage = Storage.at(catalogs / "large")
    order = sky.order.astype(np.int64)
    npix = sky.start >> 2 * (29 - order)
    digits = pa.array(npix).cast(pa.string())
    path = pc.binary_join_element_wise(f"{WRITE}/main/dataset/Npix=", digits, ".parquet", "")
    columns = [
        order,
        npix,
        path,
        sky.rows,
        sky.bytes,
        pa.array(["0" * 64]).take(pa.array(np.zeros(len(npix), int))),
    ]
    partitions = pa.table(columns, names=PARTITION_SCHEMA.names)
    spec = CatalogSpec.model_validate(small.metadata.spec)
    schema = small.metadata.schema_of()
    group = describe_group(spec, "main", schema, partitions, storage=storage, write_id=WRITE)
    changes: dict[str, Any] = {"catalog": "large", "groups": (group,), "total_rows": group.rows}
    metadata: CatalogMetadata = small.metadata.model_copy(update=changes)
    VersionLog(storage).commit(1, metadata.to_json(), WRITE)


def best(work: Callable[[], object], times: int) -> float:
    """Seconds of the quickest of several times."""
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        took.append(time.perf_counter() - begin)
    return min(took)


def p95(values: list[float]) -> float:
    """What 95 of 100 values are below."""
    return float(np.percentile(values, 95))


def _below(what: str, found: float, most: float, form: str = "{:.0f}") -> Figure:
    return Figure(what, form.format(found), f"< {most:g}", found < most)


def markdown(figures: list[Figure], version: str) -> str:
    """The page."""
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    lines = [
        "# The catalogs page, measured",
        "",
        f"{date}. Chromium {version}, headless, 1280 x 900, 2 cores, no GPU; names of other hosts are not",
        "resolved. Made by `make bench-sky`.",
        "",
        "| | found | wanted | |",
        "|---|---:|---:|---|",
    ]
    for what, found, wanted, passed in figures:
        lines.append(f"| {what} | {found} | {wanted} | {('pass' if passed else 'FAIL') if wanted else ''} |")
    lines += [
        "",
        "Picks are all over the sky, some within arcseconds of a pole. Areas are on the planes of Mollweide,",
        "Hammer and azimuthal equal-area; a share is what each cell would have if all were equal. Rotations:",
        f"{', '.join(ROTATIONS)}.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
