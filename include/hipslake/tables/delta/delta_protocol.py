"""What a Delta table asks of its readers and writers, and what of it this library does.

By the published protocol, who meets a feature that it does not know must neither read nor write the table.
"""

from __future__ import annotations

from typing import Any

from hipslake.errors import PlanError
from hipslake.tables.delta.delta_log import LogState
from hipslake.tables.delta.delta_types import column_metadata, has_naive_times

NAIVE_TIMES = "timestampNtz"

_READ = frozenset({NAIVE_TIMES, "columnMapping", "deletionVectors", "vacuumProtocolCheck"})
_WRITTEN = frozenset(
    {
        *("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"),
        *("columnMapping", "identityColumns", "deletionVectors", "vacuumProtocolCheck", NAIVE_TIMES),
    }
)
"""Features that a table may have; whether it also uses them is looked at."""

_OF_COLUMNS = {
    "delta.invariants": "an invariant",
    "delta.generationExpression": "an expression that generates it",
    "delta.identity.start": "identity values",
    "CURRENT_DEFAULT": "a default value",
}
_MEND = "let the engine that made it drop the feature, or write it there"


def new_protocol(naive_times: bool) -> dict[str, Any]:
    """The protocol of a new table: the oldest one that its columns allow, so that most engines read it."""
    if not naive_times:
        return {"minReaderVersion": 1, "minWriterVersion": 2}
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": [NAIVE_TIMES],
        "writerFeatures": [NAIVE_TIMES, "appendOnly", "invariants"],
    }


def with_naive_times(protocol: dict[str, Any]) -> dict[str, Any]:
    """The protocol of a table that gets its first column of times without a zone."""
    new, legacy = new_protocol(True), int(protocol.get("minWriterVersion", 0))
    readers, writers = {*(protocol.get("readerFeatures") or ())}, {*(protocol.get("writerFeatures") or ())}
    if legacy < 7:
        implied = ((3, "checkConstraints"), (4, "changeDataFeed"), (4, "generatedColumns"))
        writers |= {name for version, name in implied if legacy >= version}
        writers |= {"columnMapping"} if legacy >= 5 else set()
        writers |= {"identityColumns"} if legacy >= 6 else set()
        readers |= {"columnMapping"} if int(protocol.get("minReaderVersion", 0)) >= 2 else set()
    return new | {
        "readerFeatures": sorted(readers | set(new["readerFeatures"])),
        "writerFeatures": sorted(writers | (set(new["writerFeatures"]) if legacy < 7 else {NAIVE_TIMES})),
    }


def knows_naive_times(protocol: dict[str, Any]) -> bool:
    """Whether a table may have times without a zone."""
    return NAIVE_TIMES in (protocol.get("writerFeatures") or ())


def check_readable(state: LogState, name: str) -> None:
    """Look whether all that a table asks of its readers is done here.

    Raises
    ------
    PlanError
        It asks for more.
    """
    told = state.protocol
    if int(told.get("minReaderVersion", 0)) > 3:
        raise PlanError(
            f"table {name} needs a reader of version {told['minReaderVersion']} of Delta's protocol; "
            "versions 1 to 3 are read"
        )
    if unknown := sorted({*(told.get("readerFeatures") or ())} - _READ):
        raise PlanError(f"table {name} needs readers that know {', '.join(unknown)}; {_MEND}")
    if (mode := state.configuration.get("delta.columnMapping.mode", "none")) != "none":
        raise PlanError(
            f"table {name} maps its columns by {mode} (delta.columnMapping.mode), which this library does "
            "not read; have the engine that made it write it anew without"
        )


def check_no_vectors(state: LogState, name: str, why: str) -> None:
    """Look that no rows are taken out of data files by deletion vectors; raise `PlanError`."""
    marked = [path for path, file in state.files.items() if file.get("deletionVector")]
    if marked:
        raise PlanError(
            f"table {name} has deletion vectors, of {len(marked)} files such as {marked[0]}, and it cannot "
            f"be told which rows they take from which sink; {why} needs a table without them: use mode "
            "overwrite-interval or upsert, or replace the interval by hand"
        )


def check_delta_writable(state: LogState, name: str, *, removing: bool = False) -> None:
    """Look whether all that a table asks of its writers is done here.

    Parameters
    ----------
    state : LogState
    name : str
    removing : bool
        Whether files are to be taken out whose rows do not all stay.

    Raises
    ------
    PlanError
        It asks for more.
    """
    check_readable(state, name)
    told, set_to = state.protocol, state.configuration
    if int(told.get("minWriterVersion", 0)) > 7:
        raise PlanError(
            f"table {name} needs a writer of version {told['minWriterVersion']} of Delta's protocol; "
            "versions up to 7 are written"
        )
    if unknown := sorted({*(told.get("writerFeatures") or ())} - _WRITTEN):
        raise PlanError(f"table {name} needs writers that know {', '.join(unknown)}; {_MEND}")
    for column, said in column_metadata(state.metadata["schemaString"]).items():
        for key, what in _OF_COLUMNS.items():
            if key in said:
                raise PlanError(
                    f"table {name}: column {column!r} has {what}, which is not kept here; {_MEND}"
                )
    if rules := sorted(key for key in set_to if key.startswith("delta.constraints.")):
        raise PlanError(
            f"table {name} has rules for its rows ({', '.join(rules)}) that are not kept; {_MEND}"
        )
    if set_to.get("delta.enableChangeDataFeed", "false").lower() == "true":
        raise PlanError(
            f"table {name}: delta.enableChangeDataFeed is set, and this library writes no change files; "
            f"{_MEND}"
        )
    if removing and set_to.get("delta.appendOnly", "false").lower() == "true":
        raise PlanError(
            f"table {name}: delta.appendOnly is set, and rows are to be replaced; unset it, or sink what is "
            "new only"
        )
    if any(has_naive_times(field.type) for field in state.schema) and not knows_naive_times(told):
        raise PlanError(
            f"table {name} has times without a zone, and its protocol lacks {NAIVE_TIMES}; {_MEND}"
        )
