"""What the process that does all steps of a run knows from step to step, besides files of the run folder."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, Protocol, TypeVar


class Note(Protocol):
    """Something that is known."""

    def end(self) -> None:
        """Is called when the run has ended, well or not."""


SomeNote = TypeVar("SomeNote", bound=Note)


class RunNotes:
    """One note of each kind."""

    def __init__(self) -> None:
        self._notes: dict[type, Any] = {}
        self._lock = Lock()

    def of(self, kind: type[SomeNote], make: Callable[[], SomeNote]) -> SomeNote:
        """The note of a kind; made when it is first asked for."""
        with self._lock:
            found: SomeNote = self._notes.get(kind) or make()
            self._notes[kind] = found
        return found

    def standing(self, kind: type[SomeNote]) -> SomeNote | None:
        """The note of a kind, if it was made."""
        return self._notes.get(kind)

    def end(self) -> None:
        """End all notes."""
        for note in self._notes.values():
            note.end()
