"""The answer to a query as tables, which tasks read and join on any engine.

No task holds more than the partitions that belong together, so an answer may be larger than the memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from hipslake.cube.query_plan import QueryPlan
from hipslake.cube.store.query_tasks import Shares, joined_together, shares_for_cores, together
from hipslake.storage.folder import Storage


@dataclass(frozen=True)
class AnswerTasks:
    """Tasks that read and join partitions, some each. They travel, so they are small.

    Attributes
    ----------
    storage : Storage
        At the cube's root.
    plan : QueryPlan
        Without files.
    tasks : Shares
    """

    storage: Storage
    plan: QueryPlan
    tasks: Shares

    @classmethod
    def of(cls, storage: Storage, plan: QueryPlan, cores: int) -> AnswerTasks:
        """Cut a plan into some tasks for each core."""
        return cls(storage, plan.without_files(), shares_for_cores(plan, list(plan.reads()), cores))

    def tables(self, task: int) -> Iterator[pa.Table]:
        """The rows of a task: sorted within each partition of the cube, or within each group."""
        for reads in together(self.plan, self.tasks[task]):
            yield joined_together(self.storage, self.plan, reads)
