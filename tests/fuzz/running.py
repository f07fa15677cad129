"""Inputs read in processes that may die of them."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.airflow_home import PROJECT

SILENT_SECONDS = 300.0
"""A worker that says nothing for so long waits for what never comes."""
CHUNK = 2000
MOST_FAULTS = 100
"""After so many in a chunk the rest of it is not read: each death costs a start."""
_DEATHS = {-signal.SIGPROF: "hang", -signal.SIGKILL: "deadlock"}


class Fault(NamedTuple):
    """An input that did what none may do."""

    target: str
    seed: int
    number: int
    kind: str  # fault (another error than ours), hang, deadlock, memory, or crash
    told: str

    def __str__(self) -> str:
        return f"{self.target} {self.number} of seed {self.seed}: {self.kind}\n{self.told}"


@dataclass
class Outcome:
    """What came of the inputs of a target."""

    verdicts: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    seconds: float = 0.0  # of all its processes

    def __iadd__(self, other: Outcome) -> Outcome:
        self.verdicts += other.verdicts
        self.faults += other.faults
        self.seconds += other.seconds
        return self


def fuzz(wanted: Mapping[str, range], seed: int, workers: int) -> dict[str, Outcome]:
    """Read the inputs of some targets by all workers; each chunk of them in a process of its own."""
    chunks = [
        (name, range(first, min(first + chunk, numbers.stop)))
        for name, numbers in wanted.items()
        for chunk in [min(CHUNK, max(1, -(-len(numbers) // workers)))]
        for first in range(numbers.start, numbers.stop, chunk)
    ]
    outcomes = {name: Outcome() for name in wanted}
    with ThreadPoolExecutor(workers) as pool:
        done = pool.map(lambda chunk: _chunk(chunk[0], seed, chunk[1]), chunks)
        for (name, numbers), outcome in zip(chunks, done, strict=True):
            outcomes[name] += outcome
            found = f", {len(outcome.faults)} faults" if outcome.faults else ""
            print(f"{name} {numbers.start} to {numbers.stop}{found}", flush=True)
    return outcomes


def _chunk(target: str, seed: int, numbers: range) -> Outcome:
    outcome = Outcome()
    begun = time.monotonic()
    while len(numbers) and len(outcome.faults) < MOST_FAULTS:
        stopped = _process(target, seed, numbers, outcome)
        numbers = range(stopped, numbers.stop)
    outcome.seconds = time.monotonic() - begun
    return outcome


def _process(target: str, seed: int, numbers: range, outcome: Outcome) -> int:
    """Have one process read inputs until the end, or until it dies of one; return the next number."""
    number, verdicts = numbers.start, {}
    with _folder() as folder, tempfile.TemporaryFile("w+") as told:
        arguments = [target, str(folder), str(seed), str(numbers.start), str(numbers.stop)]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker", *arguments],
            stdout=subprocess.PIPE,
            stderr=told,
            cwd=PROJECT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        for what, at, *verdict in _lines(process):
            number = int(at)
            if what == "end":
                verdicts[number] = verdict[0]
        died = process.wait()
        told.seek(0)
        text = told.read()
    if died > 0:
        raise RuntimeError(f"the worker of {target} ended by itself:\n{text}")
    if died and number not in verdicts:
        verdicts[number] = _DEATHS.get(died, "crash")
    outcome.verdicts.update(verdicts.values())
    for at, verdict in verdicts.items():
        if verdict not in ("read", "refused"):
            outcome.faults.append(Fault(target, seed, at, verdict, _said_of(at, text)))
    return max(verdicts) + 1


def _lines(process: subprocess.Popen[bytes]) -> Iterator[list[str]]:
    """The lines that a worker writes, as words; it is killed when it is silent for too long."""
    assert process.stdout is not None
    rest = b""
    while True:
        ready, _, _ = select.select([process.stdout], [], [], SILENT_SECONDS)
        if not ready:
            process.kill()
            return
        data = os.read(process.stdout.fileno(), 1 << 16)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        yield from (line.decode().split() for line in lines)


def _said_of(number: int, text: str) -> str:
    """What a worker wrote on its standard error about an input, or at its end."""
    _, found, rest = text.partition(f"input {number}\n")
    return rest.partition("\n\n")[0] if found else text[-6000:]


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder in memory, where there is such."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="hipslake-fuzz-", dir=memory if memory.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def keep(fault: Fault, folder: Path) -> Path:
    """Save an input that did what none may do, with what was said; return the place of the input."""
    from tests.fuzz.targets import TARGETS

    case = TARGETS[fault.target].case(fault.seed, fault.number)
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{fault.target}-{fault.seed}-{fault.number}{case.ending}"
    place.write_bytes(case.data)
    place.with_name(f"{place.name}.fault.txt").write_text(
        f"{fault}\ntold: {json.dumps(case.told)}\n", "utf-8"
    )
    return place
