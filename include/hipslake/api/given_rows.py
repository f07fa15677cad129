"""Rows that a program hands over, whatever holds them, as Parquet files in the folder of a run."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from hipslake.api.numpy_columns import arrow_column, column_named
from hipslake.errors import InputError, SpecError
from hipslake.specs.source_spec import Format
from hipslake.storage.folder import Storage

GIVEN = "given"
"""Below the folder of a run: the rows that it was handed over."""

_GROUP_ROWS = 1 << 18
_FILE_BYTES = 128 << 20  # in memory
_MEASURED_ROWS = 1024  # of which it is taken how many bytes a row has
_ENDINGS: dict[str, Format] = {
    ".parquet": "parquet",
    ".parq": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".fits": "fits",
    ".fit": "fits",
    ".fts": "fits",
    ".vot": "votable",
    ".votable": "votable",
    ".xml": "votable",
    ".ecsv": "ecsv",
    ".avro": "avro",
}
_PACKED = (".gz", ".bz2", ".xz", ".zst", ".zstd")
_KINDS = (
    "an Arrow table or record batch reader, a pandas, polars or astropy table, a table of a FITS file, a "
    "structured array, anything with __arrow_c_stream__, a path or glob, or a list of them"
)


class StagedRows(NamedTuple):
    """Rows that lie in files of a run: the URIs of these, and the digest of all rows."""

    uris: tuple[str, ...]
    digest: str


def files_of(data: Any) -> tuple[str, ...] | None:
    """Return the paths, URIs and globs that data names; None where data holds rows.

    Relative paths are those of the working directory.

    Raises
    ------
    SpecError
        If a list holds something else, or nothing.
    """
    if isinstance(data, str | os.PathLike):
        return (_absolute(data),)
    if not isinstance(data, list | tuple | set | frozenset):
        return None
    if not data:
        raise SpecError("data: the list of files is empty; name one at least, or leave data out")
    others = [type(each).__name__ for each in data if not isinstance(each, str | os.PathLike)]
    if others:
        raise SpecError(f"data: a list names files, and this one holds a {others[0]}")
    return tuple(sorted({_absolute(each) for each in data}))


def format_of(files: Iterable[str]) -> Format | None:
    """Return the format that all files have by the endings of their names; None where these do not tell.

    Examples
    --------
    >>> format_of(["/survey/a.csv.gz", "/survey/*.csv"])
    'csv'
    >>> format_of(["/survey/a.csv", "/survey/b.fits"]) is None
    True
    """
    found = {_ENDINGS.get(_ending(name)) for name in files}
    return found.pop() if len(found) == 1 else None


def rows_of(data: Any) -> pa.RecordBatchReader:
    """Return the rows that a program hands over.

    Parameters
    ----------
    data
        A `pyarrow.Table`, `RecordBatch`, `RecordBatchReader` or `Dataset`, a frame of pandas (its index is
        left out) or polars (lazy or not), a table of astropy (see `hipslake.api.astropy_rows.table_rows`), a
        binary table of a FITS file or its records (see `hipslake.api.fits_records.record_rows`), a structured
        array of numpy, or anything with `__arrow_c_stream__`.

    Raises
    ------
    SpecError
        If it is nothing of that kind.
    InputError
        If a column holds what Arrow has no type for.
    """
    library = type(data).__module__.partition(".")[0]
    try:
        if isinstance(data, pa.RecordBatchReader):
            return data
        if isinstance(data, ds.Dataset):
            return data.scanner().to_reader()
        if isinstance(data, pa.RecordBatch):
            return pa.Table.from_batches([data]).to_reader()
        if library == "pandas" and hasattr(data, "columns"):
            data = pandas_rows(data)
        elif library == "polars" and hasattr(data, "columns"):
            data = (data.collect() if hasattr(data, "collect") else data).to_arrow()
        elif library == "astropy":
            data = _of_astropy(data)
        elif getattr(getattr(data, "dtype", None), "names", None):
            data = _of_structured(data)
        if isinstance(data, pa.Table):
            return data.to_reader()
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"data: Arrow cannot hold it: {error}") from error
    raise SpecError(f"data: is a {type(data).__name__}; give {_KINDS}")


def stage(folder: Storage, rows: pa.RecordBatchReader, place: str = GIVEN) -> StagedRows:
    """Write rows as Parquet files below the folder of a run, those of one file in memory at a time.

    The same rows give the same bytes, in whatever batches they come.

    Parameters
    ----------
    folder : Storage
        The run folder.
    rows : pyarrow.RecordBatchReader
    place : str
        Where the files go, in the run folder.

    Raises
    ------
    InputError
        If Parquet has no form for a column, or the rows cannot be read to their end.
    """
    digest, uris = hashlib.sha256(), []
    try:
        for number, (table, group) in enumerate(_files(rows)):
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, compression="zstd", row_group_size=group)
            content, path = sink.getvalue(), f"{place}/rows-{number:06d}.parquet"
            digest.update(hashlib.sha256(content).digest())
            folder.write(path, content, durable=False)
            uris.append(folder.uri(path))
    except pa.ArrowException as error:
        raise InputError(f"data: its rows cannot be stored as Parquet: {error}") from error
    return StagedRows(tuple(uris), digest.hexdigest())


def _files(rows: pa.RecordBatchReader) -> Iterator[tuple[pa.Table, int]]:
    """The rows in tables of about `_FILE_BYTES`, each with how many are a row group; one, if there are none.

    Where they are cut follows from the first rows alone: it is the same in whatever batches they come.
    """
    waiting: list[pa.RecordBatch] = []
    count, group, most = 0, _GROUP_ROWS, None
    for batch in rows:
        waiting.append(batch)
        count += batch.num_rows
        if most is None:
            if count < _MEASURED_ROWS:
                continue
            most = max(int(_FILE_BYTES / _row_bytes(pa.Table.from_batches(waiting, rows.schema))), 1)
            group = min(_GROUP_ROWS, most)
        while count >= most:
            table = pa.Table.from_batches(waiting, rows.schema)
            yield table.slice(0, most).combine_chunks(), group
            waiting, count = table.slice(most).to_batches(), count - most
    if count or most is None:
        yield pa.Table.from_batches(waiting, rows.schema).combine_chunks(), group


def _row_bytes(table: pa.Table) -> float:
    """How many bytes a row takes, by the first ones: plain in Parquet, which looks at nothing but values."""
    first, sink = table.slice(0, _MEASURED_ROWS).combine_chunks(), pa.BufferOutputStream()
    pq.write_table(first, sink, compression="none", use_dictionary=False)
    return max(sink.tell() / first.num_rows, 1.0)


def pandas_rows(frame: Any) -> pa.Table:
    """Return a frame of pandas as Arrow, without its index; numbers of another byte order are turned.

    Raises
    ------
    pyarrow.ArrowException, TypeError, ValueError
        Arrow cannot hold a column, or two have one name.
    """
    swapped = [
        at
        for at, kind in enumerate(frame.dtypes)
        if isinstance(kind, np.dtype) and not kind.isnative and kind.names is None
    ]
    if swapped:
        frame = frame.copy(deep=False)
        for at in swapped:
            frame.isetitem(at, frame.iloc[:, at].to_numpy().astype(frame.dtypes.iloc[at].newbyteorder("=")))
    return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()


def _of_astropy(data: Any) -> Any:
    """A table of astropy, a table of a FITS file, or its records, as Arrow; anything else as it is."""
    from astropy.io import fits
    from astropy.table import Table

    from hipslake.api.astropy_rows import table_rows
    from hipslake.api.fits_records import record_rows

    if isinstance(data, Table):
        return table_rows(data)

    if isinstance(data, fits.FITS_rec):
        return record_rows(data)
    if isinstance(data, fits.BinTableHDU | fits.TableHDU) and data.data is not None:
        return record_rows(data.data, data.header)
    if isinstance(data, fits.HDUList):
        tables = [at for at, hdu in enumerate(data) if isinstance(hdu, fits.BinTableHDU | fits.TableHDU)]
        raise SpecError(
            f"data: is a list of HDUs; give one that is a table ({', '.join(map(str, tables)) or 'none is'})"
        )
    return data


def _of_structured(data: Any) -> pa.Table:
    """A structured array of numpy, masked or not, as Arrow."""
    values, mask = np.ma.getdata(data), np.ma.getmaskarray(data) if np.ma.isMaskedArray(data) else None
    arrays = []
    for name in values.dtype.names:
        with column_named(name):
            arrays.append(arrow_column(values[name], None if mask is None else mask[name]))
    return pa.Table.from_arrays(arrays, names=list(values.dtype.names))


def _absolute(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    if "://" in text or text.startswith("${"):
        return text
    return str(Path(text).expanduser().absolute())


def _ending(name: str) -> str:
    path = PurePosixPath(name.lower())
    return PurePosixPath(path.stem).suffix if path.suffix in _PACKED else path.suffix
