"""Tables that are fed by a stream: a run drains what has come since the last one."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from hipslake.specs.base import Frozen


class StreamSpec(Frozen):
    """How what comes by and by gets into a table.

    Attributes
    ----------
    trigger : str
        `available_now`: a run takes all that has come since the last one, and ends.
    source : str
        `files`: those that match the URI of the spec's source, each once, by Spark's Structured Streaming.
    max_files : int, optional
        So many files become one commit at most; by default all that a run finds.
    wait_minutes : float
        How long a run waits for files, where there are no new ones.
    compact : bool
        Pack small files of the table after each run that has brought rows.
    """

    trigger: Literal["available_now"]
    source: Literal["files", "kafka"]
    max_files: int | None = Field(default=None, ge=1, le=1_000_000)
    wait_minutes: float = Field(default=60.0, ge=0.0, le=525_600.0, allow_inf_nan=False)
    compact: bool = False

    @field_validator("source")
    @classmethod
    def _is_read(cls, given: str) -> str:
        if given == "kafka":
            raise ValueError(
                "Spark's connector for Kafka is no part of PySpark, so no DAG is made for it; run a query of "
                "your own with it, and have its foreachBatch call hipslake.sink (docs/howto/streams.md)"
            )
        return given
