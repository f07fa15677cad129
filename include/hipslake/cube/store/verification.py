"""What a write has written, read back before it is committed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.catalog.leaf_rows import told
from hipslake.cube.store.cube_files import PATH, ROWS, SHA256, read_files
from hipslake.cube.store.metadata import CubeDatasetMetadata
from hipslake.engine.model import Engine
from hipslake.errors import VerificationError
from hipslake.storage.folder import Storage

_TASKS_PER_CORE = 4
_SAID = pa.schema([("problem", pa.string())])


@dataclass(frozen=True)
class CheckFiles:
    """Tasks that read files and hold them against what is said of them, some files each."""

    cube: Storage
    tasks: tuple[pa.Table, ...]

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        said = [self._problem(**each) for each in self.tasks[task].to_pylist()]
        yield pa.record_batch([pa.array([each for each in said if each], pa.string())], schema=_SAID)

    def _problem(self, **file: str | int) -> str:
        path = str(file[PATH])
        try:
            found = self.cube.sha256(path)
        except FileNotFoundError:
            return f"{self.cube.uri(path)} is missing"
        if found != file[SHA256]:
            return f"{self.cube.uri(path)} is not what was written (its SHA-256 differs)"
        with told(self.cube, path), self.cube.arrow_file(path) as opened:
            rows = pq.ParquetFile(opened).metadata.num_rows
        return "" if rows == file[ROWS] else f"{self.cube.uri(path)} has {rows} rows, not {file[ROWS]}"


def verify_written(
    cube: Storage, write_id: str, datasets: Iterable[CubeDatasetMetadata], engine: Engine
) -> None:
    """Read every data file of a write back, and hold it against its checksum and its rows.

    Raises
    ------
    VerificationError
        A file is missing or damaged.
    """
    tables = [read_files(cube, each).select([PATH, ROWS, SHA256]) for each in datasets]
    if not tables:
        return
    files = pa.concat_tables(tables).combine_chunks()
    own = [path.startswith(f"{write_id}/") for path in files[PATH].to_pylist()]
    files = files.filter(pa.array(own, pa.bool_()))
    if not files.num_rows:
        return
    share = max(1, -(-files.num_rows // max(1, engine.cores * _TASKS_PER_CORE)))
    parts = tuple(files.slice(at, share) for at in range(0, files.num_rows, share))
    with engine.progress("verify the cells"):
        found = engine.run(CheckFiles(cube, parts), tasks=len(parts), result=_SAID)
    problems = sorted(found["problem"].to_pylist())
    if problems:
        raise VerificationError(
            f"{problems[0]} ({len(problems)} files are wrong); nothing is committed, run it again"
        )
