"""A catalog of three nights, and a run that replaces one of them, to be killed at any of its changes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Self, TypeVar

from hipslake.steps.run import RunFolder

from tests.steps.nights import Survey
from tests.system.dying import Change, changes

SurveyT = TypeVar("SurveyT", bound=Survey)
RowsT = TypeVar("RowsT")


@dataclass(frozen=True)
class NightStage(Generic[SurveyT, RowsT]):
    """The third version of the catalog, and the run that makes the fourth.

    Attributes
    ----------
    survey, folder
    before, after
        The rows of either version.
    changes : list of Change
        What the run changed, in order. The warehouse before the first change is kept; after
        `with_moments`, also that before each other one.
    """

    survey: SurveyT
    folder: RunFolder
    before: RowsT
    after: RowsT
    changes: list[Change]

    @property
    def warehouse(self) -> Path:
        """Where the catalog is, and the run folders."""
        return self.survey.place / "warehouse"

    @property
    def commit(self) -> int:
        """The number of the change that is the commit."""
        version = f"{self.survey.root}/_versions/00000004.json"
        return next(at for at, change in enumerate(self.changes) if change.path == version)

    def set(self, moment: int) -> None:
        """Make the warehouse as it was right before a change."""
        shutil.rmtree(self.warehouse)
        shutil.copytree(_moments(self.survey) / str(moment), self.warehouse, symlinks=True)

    def with_moments(self, task: Callable[[RunFolder], object]) -> Self:
        """The stage with a copy of the warehouse at every moment, for which the run is run once more."""
        self.set(0)
        moments = _moments(self.survey)
        shutil.rmtree(moments)
        return replace(self, changes=changes(str(self.warehouse), str(moments), task, self.folder))


def changes_of_run(survey: Survey, folder: RunFolder, task: Callable[[RunFolder], object]) -> list[Change]:
    """Keep the warehouse as it is, as moment 0, and run a run to its end: what it changes."""
    warehouse = survey.place / "warehouse"
    shutil.copytree(warehouse, _moments(survey) / "0", symlinks=True)
    return changes(str(warehouse), None, task, folder)


def _moments(survey: Survey) -> Path:
    return survey.place / "moments"
