"""What a soak measures after each night: of the processes, of the disk, and of opening what was made."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from hipslake import Catalog
from hipslake.api.cube import Cube
from hipslake.cube.store.cube_files import PATH, read_files
from hipslake.errors import VersionNotFoundError
from hipslake.storage.folder import Storage
from hipslake.tables.catalogs import open_table
from hipslake.versions.log import VersionLog

from tests.catalog import leftovers
from tests.soak.chain import CATALOGS, Chain
from tests.system.sinks import orphans as orphans_of_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIB = 1 << 20
_TIMES = 3  # the quickest of so many openings counts


def processes(spark: SparkSession) -> dict[str, float]:
    """Open files, threads and memory of the driver, its JVM and the Python workers."""
    driver = psutil.Process()
    family = driver.children(recursive=True)
    jvm = [each for each in family if each.name() == "java"]
    workers = [each for each in family if each.name().startswith("python")]
    gc.collect()
    runtime = _jvm(spark).java.lang.Runtime.getRuntime()
    _jvm(spark).java.lang.System.gc()
    heap = runtime.totalMemory() - runtime.freeMemory()
    return {
        "driver: open files": driver.num_fds(),
        "driver: threads": driver.num_threads(),
        "driver: memory, MiB": driver.memory_full_info().uss / MIB,
        "JVM: open files": _sum(jvm, psutil.Process.num_fds),
        "JVM: threads": _sum(jvm, psutil.Process.num_threads),
        "JVM: memory, MiB": _sum(jvm, lambda each: each.memory_info().rss / MIB),
        "JVM: live heap, MiB": heap / MIB,
        "workers: processes": len(workers),
        "workers: open files": _sum(workers, psutil.Process.num_fds),
        "workers: memory, MiB": _sum(workers, lambda each: each.memory_full_info().uss / MIB),
    }


def openings(chain: Chain) -> dict[str, float]:
    """Seconds of opening catalog, table and cube, with what a reader has to know of their files."""

    def catalog() -> object:
        opened = Catalog.open(chain.catalog("stars"))
        return opened.pixels, opened.metadata.groups[0].table(opened.storage)

    def table() -> object:
        with chain.iceberg() as iceberg:
            return list(open_table(iceberg, "survey.stars").scan().plan_files())

    def cube() -> object:
        metadata = Cube.open(chain.cube).metadata
        return [read_files(Storage.at(chain.cube), dataset) for dataset in metadata.datasets]

    found = {"catalog: opened, s": _quickest(catalog), "table: opened and planned, s": _quickest(table)}
    if chain.cube.exists():
        found["cube: opened, s"] = _quickest(cube)
    return found


def disk(chain: Chain) -> dict[str, float]:
    """Files and bytes of metadata, by kind; data files are as many as there are rows for."""
    found: dict[str, float] = {}
    for kind, files in _metadata(chain.warehouse).items():
        sizes = [path.lstat().st_size for path in files]
        found[f"{kind}: files"] = len(sizes)
        found[f"{kind}: KiB"] = sum(sizes) / 1024
    return found


def orphans(chain: Chain) -> list[str]:
    """Every file that nothing names, by accounts that are not those of the vacuum."""
    found = [f"{name}/{path}" for name in CATALOGS for path in leftovers.orphans(chain.catalog(name))]
    found += [f"{name}/{path}" for name in CATALOGS for path in _folders(chain.catalog(name))]
    with chain.iceberg() as iceberg:
        found += orphans_of_table(open_table(iceberg, "survey.stars"))
    return sorted([*found, *_of_cube(chain.cube)])


def _jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm


def _sum(these: list[psutil.Process], of: Callable[[psutil.Process], float]) -> float:
    return sum(of(each) for each in these)


def _quickest(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(_TIMES):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _metadata(warehouse: Path) -> dict[str, list[Path]]:
    """Files that are no data, by kind."""
    kinds: dict[str, list[Path]] = {"log of versions": [], "table metadata": [], "run folders": []}
    for path in _files(warehouse):
        parts = path.relative_to(warehouse).parts
        if parts[0] == "_runs":
            kinds["run folders"].append(path)
        elif "_versions" in parts:
            kinds["log of versions"].append(path)
        elif parts[0] == "tables" and "metadata" in parts:
            kinds["table metadata"].append(path)
    return kinds


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _folders(root: Path) -> list[str]:
    """Folders of writes in which nothing lies."""
    return [path.name for path in root.iterdir() if path.is_dir() and not any(path.iterdir())]


def _of_cube(root: Path) -> list[str]:
    """Parquet files that no version of a cube names."""
    storage, named = Storage.at(root), set()
    for number in VersionLog(storage).numbers():
        try:
            metadata = Cube.open(root, number).metadata
        except VersionNotFoundError:
            continue
        if metadata.alignment is not None:
            named.add(metadata.alignment.table.path)
        for dataset in metadata.tables:
            named |= {dataset.table.path, *read_files(storage, dataset)[PATH].to_pylist()}
            named |= {path for index in dataset.indices for path in index.parts}
    there = {path.relative_to(root).as_posix() for path in root.rglob("*.parquet")}
    return sorted(there - named)
