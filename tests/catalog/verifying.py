"""Verification in tests: run it, look at what it found, and damage what is published."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake.catalog.checks.findings import ProblemKind, VerificationReport
from hipslake.catalog.describe import describe_group
from hipslake.catalog.hats.view_files import write_hats_group
from hipslake.catalog.leaf import encode_leaf, write_options
from hipslake.catalog.verification import verify_catalog
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.sphere.pixels import order29

from tests.catalog.little import point_map
from tests.catalog.publishing import Published

K = ProblemKind


def verify(published: Published, **options: Any) -> VerificationReport:
    return verify_catalog(published.storage, published.metadata, **options)


def kinds(report: VerificationReport) -> set[ProblemKind]:
    return {problem.kind for problem in report.problems}


def of_kind(report: VerificationReport, kind: ProblemKind, path: str | None = None) -> list[str]:
    return [p.message for p in report.problems if p.kind is kind and path in (None, p.path)]


def leaves(published: Published, group: str = "main") -> list[dict[str, Any]]:
    return published.metadata.partitions(group, published.storage).to_pylist()


def local(published: Published, path: str) -> Path:
    return Path(published.storage.uri(path))


def rewrite(
    published: Published,
    changes: dict[tuple[str, int], Callable[[pa.Table], pa.Table]],
    **fields: Any,
) -> Published:
    """Write leaves (group, number) anew with other rows, and metadata and HATS files that agree with them."""
    storage, metadata = published.storage, published.metadata
    spec = CatalogSpec.model_validate(metadata.spec)
    groups = []
    for group in metadata.groups:
        schema, partitions = group.to_arrow(), leaves(published, group.name)
        for number, leaf in enumerate(partitions):
            change = changes.get((group.name, number))
            if change is not None:
                table = pq.read_table(storage.uri(leaf["path"]), partitioning=None)
                data = encode_leaf([change(table)], schema, write_options(spec.parquet, schema)).to_pybytes()
                storage.write(leaf["path"], data)
                rows = pq.read_metadata(storage.uri(leaf["path"])).num_rows
                leaf |= {"rows": rows, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        table = pa.Table.from_pylist(partitions)
        groups.append(
            describe_group(spec, group.name, schema, table, storage=storage, write_id=metadata.write_id)
        )
    total_bytes = sum(group.bytes for group in groups)
    metadata = metadata.model_copy(update={"groups": tuple(groups), "total_bytes": total_bytes} | fields)
    if metadata.layout == "hats":
        for group in groups:
            write_hats_group(storage, metadata, group.name, point_map(np.sort(order29(*published.degrees))))
    return published._replace(metadata=metadata)


def column_set(name: str, value: Callable[[np.ndarray], np.ndarray]) -> Callable[[pa.Table], pa.Table]:
    """A change of one column's values."""

    def change(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index(name)
        return table.set_column(at, table.schema.field(at), pa.array(value(table[name].to_numpy().copy())))

    return change
