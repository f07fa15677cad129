"""Files that have come since the last time, by Spark's Structured Streaming.

Spark lists them and keeps in the checkpoint which are in what batch. It opens none of them: what is handed
over are their paths, so that any format is read by the readers of this library, and no row passes through
the JVM.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from hipslake.engine.model import ArrivingFiles, BatchTask
from hipslake.errors import StepError, StorageError
from hipslake.storage.plain_json import plain_json

_FOUND = "path string, modificationTime timestamp, length bigint, content binary"
_ANY_AGE = "36500d"  # else files that come and are a week older than the newest are passed over
_METADATA = "metadata"
_FILE_LOG = "sources/0"
_QUERY_ID = "sql.streaming.queryId"  # local property, in the thread of a streaming query


def drain_files(session: SparkSession, arriving: ArrivingFiles, task: BatchTask) -> None:
    """Hand over files as `hipslake.engine.model.StreamingEngine.drain` says."""
    raised: list[BaseException] = []

    def take(_: DataFrame, number: int) -> None:
        try:
            task(
                number,
                checkpoint_id(arriving.checkpoint),
                lambda: paths_of_batch(arriving.checkpoint, number),
            )
        except BaseException as error:
            raised.append(error)
            raise

    reader = session.readStream.format("binaryFile").schema(_FOUND)
    reader = reader.option("recursiveFileLookup", "true").option("maxFileAge", _ANY_AGE)
    if arriving.most is not None:
        reader = reader.option("maxFilesPerTrigger", arriving.most)
    try:
        writer = reader.load(arriving.pattern).writeStream.queryName(arriving.name).foreachBatch(take)
        query = writer.option("checkpointLocation", arriving.checkpoint).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()
    except PySparkException as error:
        if raised:
            raise raised[0] from None
        raise StorageError(
            f"stream {arriving.name}: Spark cannot go on from its checkpoint {arriving.checkpoint}: {error}"
        ) from error


def paths_of_batch(checkpoint: str, number: int) -> list[str]:
    """The paths of the files of a batch, sorted, by the log of Spark's source of files.

    The frame that Spark hands over would do without files that are gone by now, and not say so.

    Parameters
    ----------
    checkpoint : str
    number : int
        Of a batch that is planned: its offset is written.

    Raises
    ------
    StorageError
        The log is damaged, or has another form than that of the Spark that this library is made for.
    """
    folder = Path(checkpoint)
    try:
        start = _offset(folder, number - 1) if number else -1
        found: list[str] = []
        for entry in range(start + 1, _offset(folder, number) + 1):
            found += _logged(folder / _FILE_LOG, entry)
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise StorageError(f"{folder}: does not tell the files of batch {number}: {error}") from error
    return sorted(local_path(path) for path in found)


def _offset(folder: Path, number: int) -> int:
    """The last entry in the log of files that belongs to a batch."""
    return int(json.loads(_lines(folder / "offsets" / str(number))[1])["logOffset"])


def _logged(folder: Path, entry: int) -> list[str]:
    """The files of an entry; every tenth file of the log holds all entries before it, too."""
    whole = folder / f"{entry}.compact"
    lines = _lines(whole if whole.is_file() else folder / str(entry))
    told = [json.loads(line) for line in lines]
    return [each["path"] for each in told if each["batchId"] == entry]


def _lines(path: Path) -> list[str]:
    version, *lines = path.read_text(encoding="utf-8").splitlines()
    if version != "v1":
        raise ValueError(f"{path} is of version {version!r}, and not v1")
    return lines


def checkpoint_of(frame: DataFrame) -> str | None:
    """The id of the checkpoint of the query that has handed over a frame; None outside of `foreachBatch`."""
    found = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    return None if found is None else str(found)


def checkpoint_id(folder: str) -> str:
    """The id of a checkpoint, which it keeps from its first query on.

    Raises
    ------
    StepError
        There is none, or what says it is damaged.
    """
    place = Path(folder) / _METADATA
    try:
        told = plain_json(place.read_bytes())
    except (OSError, ValueError) as error:
        raise StepError(f"{place}: does not tell the id of the checkpoint: {error}") from None
    found = told.get("id") if isinstance(told, dict) else None
    if not isinstance(found, str):
        raise StepError(f"{place}: does not tell the id of the checkpoint")
    return found


def local_path(uri: str) -> str:
    """The path of a local file, as the log of Spark's source of files names it.

    Examples
    --------
    >>> local_path("file:///data/a%20b.parquet"), local_path("file:///data/50%25.csv")
    ('/data/a b.parquet', '/data/50%.csv')
    """
    return "/" + unquote(uri.removeprefix("file:")).lstrip("/")
