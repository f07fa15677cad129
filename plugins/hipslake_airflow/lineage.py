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
    from hipslake.steps.lineage import Origin
    from hipslake.steps.report import Report
    from hipslake.steps.standing import ColumnType, Standing


def lineage_of(report: Report, run_uri: str) -> OperatorLineage:
    """Return the inputs and outputs of a step; none where it has committed nothing.

    Parameters
    ----------
    report : Report
        Of a step that went well.
    run_uri : str
        The step's run folder.
    """
    from hipslake.steps.lineage import origins_of
    from hipslake.steps.standing import standing_after

    standing = standing_after(report, run_uri)
    if standing is None:
        return OperatorLineage()
    origins = origins_of(report, run_uri)
    return OperatorLineage(
        inputs=[_input(each, report.rows_in if len(origins) == 1 else None) for each in origins],
        outputs=[_output(standing, report)],
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
    from hipslake.steps.standing import catalog_standing

    namespace, name = name_of(origin.uri)
    facets: dict[str, DatasetFacet] = {}
    if origin.version is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(origin.version)
    if origin.kind == "catalog" and origin.version is not None:
        with suppress(VersionNotFoundError):  # vacuumed since it was read
            facets["schema"] = _schema(catalog_standing(origin.uri, int(origin.version)).columns)
    told = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(rows, origin.bytes, origin.files)
    return InputDataset(namespace, name, {"inputStatistics": told}, facets=facets)


def _output(standing: Standing, report: Report) -> OutputDataset:
    namespace, name = name_of(standing.uri)
    facets: dict[str, DatasetFacet] = {
        "schema": _schema(standing.columns),
        "version": dataset_version_dataset.DatasetVersionDatasetFacet(standing.version),
    }
    if standing.kind == "table":
        called = symlinks_dataset.Identifier(namespace, standing.name, "TABLE")
        facets["symlinks"] = symlinks_dataset.SymlinksDatasetFacet([called])
    told = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        report.rows_out, report.bytes, report.files
    )
    return OutputDataset(namespace, name, {"outputStatistics": told}, facets=facets)


def _schema(columns: tuple[ColumnType, ...]) -> schema_dataset.SchemaDatasetFacet:
    fields = [schema_dataset.SchemaDatasetFacetFields(each.name, each.type) for each in columns]
    return schema_dataset.SchemaDatasetFacet(fields)
