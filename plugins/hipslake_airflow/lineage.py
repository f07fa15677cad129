"""OpenLineage: what a step read and what it committed, as the OpenLineage provider of Airflow asks for it.

Imported by nobody but the provider's listener, so the provider may be missing. Datasets are named by where
they lie, as OpenLineage has it; a table says besides what it is called.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    dataset_version_dataset,
    input_statistics_input_dataset,
    output_statistics_output_dataset,
    schema_dataset,
    symlinks_dataset,
)

if TYPE_CHECKING:
    from hipslake.steps.committed import ColumnType, CommittedVersion, Origin
    from hipslake.steps.report import Report


def lineage_of(report: Report, run_uri: str) -> OperatorLineage:
    """Return the inputs and outputs of a step; none where it has committed nothing.

    Parameters
    ----------
    report : Report
        Of a step that went well.
    run_uri : str
        The step's run folder.
    """
    committed = report.committed(run_uri)
    if committed is None:
        return OperatorLineage()
    origins = report.origins(run_uri)
    return OperatorLineage(
        inputs=[_input(each, report.rows_in if len(origins) == 1 else None) for each in origins],
        outputs=[_output(committed, report)],
    )


def name_of(uri: str) -> tuple[str, str]:
    """Return the namespace and the name of a place, as OpenLineage names datasets.

    Examples
    --------
    >>> name_of("s3://survey/warehouse/catalogs/gaia_dr3")
    ('s3://survey', 'warehouse/catalogs/gaia_dr3')
    >>> name_of("file:///data/gaia"), name_of("/data/gaia")
    (('file', '/data/gaia'), ('file', '/data/gaia'))
    """
    parts = urlsplit(uri)
    if parts.scheme in ("", "file"):
        return "file", parts.path
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/") or "/"


def _input(origin: Origin, rows: int | None) -> InputDataset:
    from hipslake.errors import VersionNotFoundError
    from hipslake.steps.committed import catalog_version

    namespace, name = name_of(origin.uri)
    facets: dict[str, DatasetFacet] = {}
    if origin.version is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(origin.version)
    if origin.kind == "catalog" and origin.version is not None:
        with suppress(VersionNotFoundError):  # vacuumed since it was read
            facets["schema"] = _schema(catalog_version(origin.uri, int(origin.version)).columns)
    statistics = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
        rows, origin.bytes, origin.files
    )
    return InputDataset(namespace, name, {"inputStatistics": statistics}, facets=facets)


def _output(committed: CommittedVersion, report: Report) -> OutputDataset:
    namespace, name = name_of(committed.uri)
    facets: dict[str, DatasetFacet] = {
        "schema": _schema(committed.columns),
        "version": dataset_version_dataset.DatasetVersionDatasetFacet(committed.version),
    }
    if committed.kind == "table":
        identifier = symlinks_dataset.Identifier(namespace, committed.name, "TABLE")
        facets["symlinks"] = symlinks_dataset.SymlinksDatasetFacet([identifier])
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        report.rows_out, report.bytes, report.files
    )
    return OutputDataset(namespace, name, {"outputStatistics": statistics}, facets=facets)


def _schema(columns: tuple[ColumnType, ...]) -> schema_dataset.SchemaDatasetFacet:
    fields = [schema_dataset.SchemaDatasetFacetFields(each.name, each.type) for each in columns]
    return schema_dataset.SchemaDatasetFacet(fields)
