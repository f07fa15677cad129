"""A reader of HiPS catalogues, written from the standard alone (IVOA HiPS 1.0): it checks what it reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import healpy
import numpy as np
from astropy.io import votable
from mocpy import MOC

MANDATORY = (
    "creator_did",
    "obs_title",
    "dataproduct_type",
    "hips_version",
    "hips_release_date",
    "hips_status",
    "hips_tile_format",
    "hips_order",
    "hips_frame",
)


class ReadTile(NamedTuple):
    """A file of rows."""

    shown: int
    total: int
    names: list[str]
    rows: list[list[str]]


class ReadHips(NamedTuple):
    """All files of a HiPS."""

    properties: dict[str, str]
    tiles: dict[tuple[int, int], ReadTile]
    allsky: dict[int, ReadTile]
    fields: list[votable.tree.Field]
    moc: MOC

    @property
    def rows(self) -> list[list[str]]:
        """All rows, tile by tile."""
        return [row for tile in self.tiles.values() for row in tile.rows]

    def column(self, name: str) -> list[str]:
        """The cells of a column, tile by tile."""
        at = next(iter(self.tiles.values())).names.index(name)
        return [row[at] for row in self.rows]


def read_hips(root: Path) -> ReadHips:
    """Read a HiPS, and check each file against the standard and against the others."""
    properties = read_properties(root / "properties")
    assert set(MANDATORY) <= set(properties)
    assert re.fullmatch(r"ivo://[^/\s]{3,}/\S+", properties["creator_did"])
    assert properties["dataproduct_type"] == "catalog"
    assert properties["hips_tile_format"] == "tsv"
    assert properties["hips_frame"] == "equatorial"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\dZ", properties["hips_release_date"])
    assert set(properties["hips_status"].split()) <= {
        "public", "private", "master", "mirror", "partial", "clonable", "unclonable", "clonableOnce"
    }  # fmt: skip
    tiles = {}
    for path in sorted(root.glob("Norder*/Dir*/Npix*.tsv")):
        order, folder, npix = (int(re.search(r"\d+", part)[0]) for part in path.relative_to(root).parts)  # type: ignore[index]
        assert folder == npix // 10000 * 10000
        assert 0 <= npix < 12 * 4**order
        tiles[order, npix] = read_tile(path)
    allsky = {order: read_tile(root / f"Norder{order}" / "Allsky.tsv") for order in (1, 2)}
    assert int(properties["hips_order"]) == max([2, *(order for order, _ in tiles)])
    assert int(properties["hips_cat_nrows"]) == sum(len(tile.rows) for tile in tiles.values())
    assert int(properties["hips_nb_tiles"]) == len(tiles)
    described = (root / "Metadata.xml").read_bytes()
    assert (root / "metadata.xml").read_bytes() == described
    fields = list(votable.parse(root / "metadata.xml").get_first_table().fields)
    moc = MOC.load(root / "Moc.fits", format="fits")
    assert float(properties["moc_sky_fraction"]) == round(moc.sky_fraction, 9)
    found = ReadHips(properties, tiles, allsky, fields, moc)
    check(found)
    return found


def read_properties(path: Path) -> dict[str, str]:
    """The lines `keyword = value`; no keyword is there twice."""
    found: dict[str, str] = {}
    for line in path.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        key, value = (part.strip() for part in line.split("=", 1))
        assert key not in found
        assert value
        assert not re.search(r"\s", key)
        found[key] = value
    return found


def read_tile(path: Path) -> ReadTile:
    """A TSV file: comments, a line of names, rows of as many cells, each line with its end."""
    text = path.read_bytes().decode("utf-8")
    assert text.endswith("\n")
    lines = text[:-1].split("\n")
    comments = [line for line in lines if line.startswith("#")]
    (completeness,) = (line.removeprefix("# Completeness = ") for line in comments)
    shown, total = map(int, completeness.split("/"))
    assert lines[0] == comments[0]  # Aladin Lite takes the second line for the names
    names, *rows = ([cell.removesuffix("\r") for cell in line.split("\t")] for line in lines[1:])
    assert {len(row) for row in rows} <= {len(names)}
    return ReadTile(shown, total, names, rows)


def check(hips: ReadHips) -> None:
    """Hold tiles against positions, their ancestors, the files of all tiles, columns, and the coverage."""
    names = [field.name for field in hips.fields]
    assert [field.ucd for field in hips.fields[:2]] == ["pos.eq.ra;meta.main", "pos.eq.dec;meta.main"]
    assert sum("meta.main" in (field.ucd or "") for field in hips.fields) == 2
    assert [str(field.unit) for field in hips.fields[:2]] == ["deg", "deg"]
    for tile in hips.tiles.values():
        assert tile.names == names
        assert tile.rows
    sizes = [len(tile.rows) for tile in hips.tiles.values()]
    order = np.repeat([key[0] for key in hips.tiles], sizes).astype(np.int64)
    npix = np.repeat([key[1] for key in hips.tiles], sizes).astype(np.int64)
    ra, dec = (np.array([float(row[axis]) for row in hips.rows]) for axis in (0, 1))
    h29 = healpy.ang2pix(2**29, ra, dec, nest=True, lonlat=True).astype(np.int64)
    assert (h29 >> (2 * (29 - order)) == npix).all(), "rows lie outside of their tile"
    for each in sorted({key[0] for key in hips.tiles}):
        pixels = h29 >> (2 * (29 - each))
        everywhere = dict(zip(*np.unique(pixels, return_counts=True), strict=True))
        so_far = dict(zip(*np.unique(pixels[order <= each], return_counts=True), strict=True))
        for key, tile in hips.tiles.items():
            if key[0] == each:
                assert (tile.shown, tile.total) == (so_far[key[1]], everywhere[key[1]])
                assert each == 1 or (each - 1, key[1] >> 2) in hips.tiles, "no tile leads to this one"
    shown = 0
    for each, tile in hips.allsky.items():
        parts = [hips.tiles[key].rows for key in sorted(hips.tiles) if key[0] == each]
        assert tile.rows == [row for rows in parts for row in rows]
        shown += len(tile.rows)
        assert (tile.names, tile.shown, tile.total) == (names, shown, len(h29))
    covered = set((h29 >> (2 * (29 - hips.moc.max_order))).tolist())
    assert set(hips.moc.flatten().tolist()) == covered


def check_limits(hips: ReadHips, allsky_rows: int, tile_rows: int, deepest: int) -> None:
    """No tile above the last order has more rows than it may; where finer tiles are, it has as many."""
    for (order, npix), tile in hips.tiles.items():
        assert order <= deepest
        if order == deepest:
            continue
        limit = allsky_rows if order <= 2 else tile_rows
        assert len(tile.rows) <= limit
        if any((order + 1, child) in hips.tiles for child in range(4 * npix, 4 * npix + 4)):
            assert len(tile.rows) == limit


def check_progress(hips: ReadHips, name: str, *, descending: bool = False) -> None:
    """On the way down to each tile values never go back; null and NaN come last."""

    def place(cell: str) -> float:
        if cell in ("", "NaN"):
            return np.inf
        value = float(cell)
        return -value if descending else value

    at = hips.fields.index(next(field for field in hips.fields if field.name == name))
    for (order, npix), tile in hips.tiles.items():
        values = [place(row[at]) for row in tile.rows]
        assert values == sorted(values)
        if order == 1:
            continue
        above = hips.tiles[order - 1, npix >> 2].rows
        assert max(place(row[at]) for row in above) <= values[0]
