"""What Airflow shows of the package among its providers (`airflow providers list`)."""

from __future__ import annotations

from typing import Any

from hipslake.library_version import __version__


def provider_info() -> dict[str, Any]:
    """Return the metadata of the package, in the form of Airflow's `provider_info.schema.json`."""
    return {
        "package-name": "hipslake",
        "name": "hipslake",
        "description": "Survey files become spatially partitioned, versioned HEALPix catalogs.",
        "versions": [__version__],
        "extra-links": [
            "hipslake_airflow.links.page.CatalogsPageLink",
            "hipslake_airflow.links.spark.SparkLink",
        ],
    }
