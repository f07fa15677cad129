"""Every order in which several processes may reach a store, up to a number of interruptions.

Each process is a thread that stops at each call of the store until a schedule lets it go on; one at a time
goes on. A schedule is a list of choices, so a run can be done again, and all runs are found depth first. A
process may be interrupted for any time, be killed, or hear of a failure while its request is still under way:
each of these counts as an interruption.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from threading import Lock
from typing import Any

from hipslake.errors import StorageError
from hipslake.storage.folder import Entry, Storage

Act = Callable[[Storage], object]
Run = Callable[["World"], None]

_MOST_STEPS = 2000
_OFTEN = 0.15
_IS_PRIVATE = re.compile(
    r"\w+ (.*\.tmp|metadata.json|collection.properties)|(write|read|written) .*/_heartbeat.json"
).fullmatch
"""Calls that no other process can tell from ones that come sooner or later."""


class Killed(BaseException):
    """What a process meets at the call of the store at which it is killed, and at any other."""


class World:
    """A store, and the processes at work on it."""

    def __init__(self, names: Sequence[str]) -> None:
        self.files: dict[str, bytes] = {}
        self.times: dict[str, float] = {}
        self.now = 1_000_000.0  # by the clock of the store
        self.store = SteppedStore(self)
        self.processes = {name: Process(name, self) for name in names}
        self.late: list[tuple[str, bytes]] = []  # requests under way whose senders have heard of a failure
        self.trace: list[str] = []
        self.stepping = False

    def process(self) -> Process | None:
        return self.processes.get(threading.current_thread().name) if self.stepping else None

    def create(self, path: str, data: bytes) -> bool:
        if path in self.files:
            return False
        self.put(path, data)
        return True

    def put(self, path: str, data: bytes) -> None:
        self.now += 0.001
        self.files[path], self.times[path] = bytes(data), self.now


def taken_lock() -> Lock:
    """Which a thread waits for until another one releases it: far cheaper than a semaphore of Python's."""
    lock = Lock()
    lock.acquire()
    return lock


@dataclass
class Process:
    """A thread, and the call of the store before which it stands."""

    name: str
    world: World
    call: str = ""
    creates: tuple[str, bytes] | None = None
    killed: bool = False
    times_out: bool = False
    ended: bool = False
    error: BaseException | None = None
    go: Lock = field(default_factory=taken_lock)
    parked: Lock = field(default_factory=taken_lock)

    def step(self, call: str, creates: tuple[str, bytes] | None = None) -> None:
        if self.killed:
            raise Killed
        self.call, self.creates = call, creates
        self.parked.release()
        self.go.acquire()
        if self.killed:
            raise Killed
        if self.times_out:
            self.times_out = False
            assert creates is not None
            self.world.late.append(creates)
            raise StorageError("no answer")

    def run(self, act: Act) -> None:
        self.go.acquire()
        try:
            act(self.world.store)
        except BaseException as error:
            self.error = error
        self.ended = True
        self.parked.release()

    def let_go(self) -> None:
        self.go.release()
        self.parked.acquire()


class SteppedStore(Storage):
    """An object store that is a dictionary, each call of which is a step of the process that calls."""

    world: World

    def __init__(self, world: World) -> None:
        object.__setattr__(self, "root", "memory://model")
        object.__setattr__(self, "world", world)

    def _step(self, call: str, path: str, creates: tuple[str, bytes] | None = None) -> None:
        process = self.world.process()
        if process is not None and not _IS_PRIVATE(f"{call} {path}"):
            process.step(f"{call} {path}", creates)

    def read(self, path: str) -> bytes:
        self._step("read", path)
        if path not in self.world.files:
            raise FileNotFoundError(path)
        return self.world.files[path]

    def is_file(self, path: str) -> bool:
        self._step("is_file", path)
        return path in self.world.files

    def exists(self, path: str) -> bool:
        return self.is_file(path) or bool(self.list(path))

    def entry(self, path: str) -> Entry:
        return Entry(path, len(self.read(path)), "", False)

    def written(self, path: str) -> float | None:
        self._step("written", path)
        if path not in self.world.times:
            raise FileNotFoundError(path)
        return self.world.times[path]

    def list(self, path: str = "", *, recursive: bool = False) -> list[Entry]:
        self._step("list", path)
        start = f"{path}/" if path else ""
        found = {}
        for name, data in self.world.files.items():
            if name.startswith(start):
                below, deeper, _ = name[len(start) :].partition("/")
                is_dir = bool(deeper) and not recursive
                each = start + below if is_dir or not deeper else name
                found[each] = Entry(each, 0 if is_dir else len(data), "", is_dir)
        return [found[each] for each in sorted(found)]

    def unfinished(self, path: str = "", *, recursive: bool = False) -> list[Entry]:
        return []

    def write(self, path: str, data: Any, *, durable: bool = True) -> None:
        self._step("write", path)
        self.world.put(path, data)

    def create(self, path: str, data: bytes) -> bool:
        self._step("create", path, (path, data))
        return self.world.create(path, data)

    def delete(self, path: str) -> None:
        self._step("delete", path)
        self.world.files.pop(path, None)
        self.world.times.pop(path, None)

    def delete_tree(self, path: str) -> None:
        self._step("delete_tree", path)
        for name in [name for name in self.world.files if name.startswith(f"{path}/")]:
            del self.world.files[name], self.world.times[name]

    def delete_empty(self, path: str) -> None:
        pass

    def symlink_target(self, path: str) -> str | None:
        return None


class Schedule:
    """The choices of one run: those given, then the first, which interrupts nobody, or any by chance."""

    def __init__(self, given: Sequence[int], interruptions: int, chance: Random | None = None) -> None:
        self.given = given
        self.left = interruptions
        self.chance = chance
        self.taken: list[int] = []
        self.widths: list[int] = []

    def choose(self, options: Sequence[tuple[int, Any]]) -> Any:
        """One of some options, each with the interruptions that it costs; the first costs none."""
        open_ones = [option for option in options if option[0] <= self.left]
        at = len(self.taken)
        chosen = self.given[at] if at < len(self.given) else 0
        if self.chance is not None and self.chance.random() < _OFTEN:
            chosen = self.chance.randrange(len(open_ones))
        self.taken.append(chosen)
        self.widths.append(len(open_ones))
        cost, option = open_ones[chosen]
        self.left -= cost
        return option


def explored(
    prepare: Run, acts: dict[str, Act], check: Run, *, interruptions: int, sample: int | None = None
) -> int:
    """Do every run, or some by chance, and check what each leaves; returns how many there were.

    Parameters
    ----------
    prepare : callable
        Lays out a store, before any process begins.
    acts : dict of str to callable
        What each process does.
    check : callable
        Raises if what a run has left is wrong; its steps are added to what it says.
    interruptions : int
        The most in one run.
    sample : int, optional
        Do so many runs by chance, always the same, in place of all.
    """
    runs = 0
    chance = Random(20261121)
    by_chance = (Schedule((), interruptions, chance) for _ in range(sample or 0))
    for schedule in _schedules(interruptions) if sample is None else by_chance:
        world = World(list(acts))
        prepare(world)
        _run(world, acts, schedule)
        runs += 1
        try:
            check(world)
        except BaseException as error:
            error.add_note("\n".join(world.trace))
            raise
    return runs


def _schedules(interruptions: int) -> Iterator[Schedule]:
    given: list[int] = []
    while True:
        schedule = Schedule(given, interruptions)
        yield schedule
        given = schedule.taken
        while given and given[-1] + 1 >= schedule.widths[len(given) - 1]:
            given = given[:-1]
        if not given:
            return
        given = [*given[:-1], given[-1] + 1]


def _run(world: World, acts: dict[str, Act], schedule: Schedule) -> None:
    threads = [
        threading.Thread(target=world.processes[name].run, args=(act,), name=name)
        for name, act in acts.items()
    ]
    world.stepping = True
    for thread in threads:
        thread.start()
        world.processes[thread.name].let_go()
    current = next(iter(world.processes.values()))
    for _ in range(_MOST_STEPS):
        ready = [process for process in world.processes.values() if not process.ended]
        if not ready and not world.late:
            break
        act, who = schedule.choose(_options(world, current, ready))
        if act == "land":
            path, data = world.late.pop(who)
            world.trace.append(f"late: create {path}: {world.create(path, data)}")
            continue
        if act == "lost":
            world.late.pop(who)
            continue
        current = who
        world.trace.append(f"{who.name}: {act if act != 'go' else ''} {who.call}")
        who.killed |= act == "kill"
        who.times_out |= act == "time out"
        who.let_go()
    else:
        raise AssertionError("a run does not end")
    for thread in threads:
        thread.join()
    world.stepping = False


def _options(world: World, current: Process, ready: list[Process]) -> list[tuple[int, Any]]:
    goes_on = [process for process in ready if process is current]
    others = [process for process in ready if process is not current]
    options: list[tuple[int, Any]] = [(0, ("go", process)) for process in goes_on]
    options += [(1 if goes_on else 0, ("go", process)) for process in others]
    options += [(1 if ready else 0, ("land", at)) for at in range(len(world.late))]
    if not ready:
        options += [(0, ("lost", at)) for at in range(len(world.late))]
    options += [(1, ("kill", process)) for process in goes_on]
    options += [(1, ("time out", each)) for each in goes_on if each.creates and "/0" in each.call]
    return options
