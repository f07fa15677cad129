"""The first rows of leaf files, as the thumbnail of a version has them: leaves that stay need not be read."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.catalog.checksums import CHECKSUMS, checksum_of, listed_checksums
from hipslake.catalog.layouts import HATS
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import leaf_spans
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.folder import Storage
from hipslake.storage.small_files import in_threads

THUMBNAIL = "data_thumbnail.parquet"


def known_first_rows(
    storage: Storage, older: CatalogMetadata, group: str, schema: pa.Schema
) -> dict[str, pa.RecordBatch]:
    """The first rows that the HATS files of a version tell, by the paths of the leaf files.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    older : CatalogMetadata
        Of a version whose tree is whole.
    group : str
        A column group, of any version.
    schema : pyarrow.Schema
        Of the rows that are wanted.

    Returns
    -------
    dict of str to pyarrow.RecordBatch
        Empty where the version had other columns or several files in a leaf, or where its thumbnail is not
        the one that the checksums beside it name.
    """
    if older.gathers or group not in {each.name for each in older.groups}:
        return {}
    data = b""
    with suppress(FileNotFoundError):
        paths = [HATS.view_file(older.write_id, group, name) for name in (THUMBNAIL, CHECKSUMS)]
        data, listing = in_threads(storage, storage.read, paths)
        listed = listed_checksums(listing) or {}
        if listed.get(HATS.view_file(older.write_id, group, THUMBNAIL)) != checksum_of(data):
            data = b""
    if not data:  # missing, or damaged
        return {}
    rows = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
    if not rows.num_rows or not rows.schema.equals(schema):
        return {}
    files = older.partitions(group, storage)
    start, stop = leaf_spans(files)
    h29 = rows[HEALPIX_COLUMN].to_numpy()
    leaf = np.searchsorted(start, h29, side="right") - 1
    inside = (leaf >= 0) & (h29 < stop[leaf])
    paths = files["path"].take(pa.array(leaf[inside])).to_pylist()
    (batch,) = rows.combine_chunks().to_batches()
    batch = pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    return dict(zip(paths, [batch.slice(at, 1) for at in np.flatnonzero(inside).tolist()], strict=True))
