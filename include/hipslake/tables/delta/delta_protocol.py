"""What a Delta table asks of its readers and writers, and what of it this library does.

By the published protocol, who meets a feature that it does not know must neither read nor write the table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from hipslake.errors import PlanError
from hipslake.tables.delta.delta_actions import Action
from hipslake.tables.delta.delta_log import LogState
from hipslake.tables.delta.delta_types import column_metadata, has_naive_times

NAIVE_TIMES, VECTORS = "timestampNtz", "deletionVectors"
"""Features of tables, which readers have to know: times without a zone, and deletion vectors."""

ENABLE_VECTORS = "delta.enableDeletionVectors"
"""Delta's property of a table: whether rows are deleted by deletion vectors."""

_READ = frozenset({NAIVE_TIMES, "columnMapping", VECTORS, "vacuumProtocolCheck"})
_WRITTEN = frozenset(
    {
        *("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"),
        *("columnMapping", "identityColumns", VECTORS, "vacuumProtocolCheck", NAIVE_TIMES),
    }
)
"""Features that a table may have; whether it also uses them is looked at."""

_IMPLIED = (
    *((2, "appendOnly"), (2, "invariants"), (3, "checkConstraints"), (4, "changeDataFeed")),
    *((4, "generatedColumns"), (5, "columnMapping"), (6, "identityColumns")),
)
"""From which version on writers know features, in tables whose protocol does not name them."""

_OF_COLUMNS = {
    "delta.invariants": "an invariant",
    "delta.generationExpression": "an expression that generates it",
    "delta.identity.start": "identity values",
    "CURRENT_DEFAULT": "a default value",
}
_MEND = "let the engine that made it drop the feature, or write it there"


def needed_features(schema: pa.Schema, properties: Mapping[str, str]) -> frozenset[str]:
    """The features that a table of some columns and properties asks of its readers."""
    naive = any(has_naive_times(field.type) for field in schema)
    return frozenset(
        name for name, needed in ((NAIVE_TIMES, naive), (VECTORS, vectors_asked(properties))) if needed
    )


def new_protocol(features: Collection[str]) -> dict[str, Any]:
    """The protocol of a new table: the oldest one that has some features, so that most engines read it."""
    oldest = {"minReaderVersion": 1, "minWriterVersion": 2}
    return with_features(oldest, features) if features else oldest


def with_features(protocol: dict[str, Any], added: Collection[str]) -> dict[str, Any]:
    """The protocol of a table that gets features which readers have to know; it keeps those that it has."""
    reader, writer = (int(protocol.get(name, 0)) for name in ("minReaderVersion", "minWriterVersion"))
    readers, writers = {*(protocol.get("readerFeatures") or ())}, {*(protocol.get("writerFeatures") or ())}
    if writer < 7:
        writers |= {name for version, name in _IMPLIED if writer >= version}
    if reader == 2:
        readers |= {"columnMapping"}
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": sorted({*readers, *added}),
        "writerFeatures": sorted({*writers, *readers, *added}),
    }


def has_feature(protocol: dict[str, Any], name: str) -> bool:
    """Whether a table has a feature that its protocol names."""
    return name in (protocol.get("writerFeatures") or ())


def vectors_asked(properties: Mapping[str, str]) -> bool | None:
    """Whether a table asks for deletion vectors, or forbids new ones; None: it does not say it."""
    told = properties.get(ENABLE_VECTORS)
    return None if told is None else told.strip().lower() == "true"


def enabling_vectors(state: LogState) -> list[Action]:
    """The actions by which a table gets deletion vectors; none if it has them."""
    actions: list[Action] = []
    if not has_feature(state.protocol, VECTORS):
        actions.append({"protocol": with_features(state.protocol, {VECTORS})})
    if not vectors_asked(state.configuration):
        told = {**state.configuration, ENABLE_VECTORS: "true"}
        actions.append({"metaData": {**state.metadata, "configuration": told}})
    return actions


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
    if any(has_naive_times(field.type) for field in state.schema) and not has_feature(told, NAIVE_TIMES):
        raise PlanError(
            f"table {name} has times without a zone, and its protocol lacks {NAIVE_TIMES}; {_MEND}"
        )
