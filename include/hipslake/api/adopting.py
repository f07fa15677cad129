"""Catalogs of others become versions of a catalog of the warehouse: `from hipslake import adopt`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hipslake.api.catalog import Catalog
from hipslake.api.catalog_runner import CatalogRunner, Outcome
from hipslake.api.step_runner import Told
from hipslake.errors import SpecError
from hipslake.specs.adopt_spec import AdoptSpec
from hipslake.specs.base import validated
from hipslake.specs.spec_folder import load_spec
from hipslake.storage.folder import Storage

AdoptLike = AdoptSpec | Mapping[str, Any] | str | os.PathLike[str]
"""A spec that adopts: a model, its keys, or the path of its file."""


def adopt(
    spec: AdoptLike,
    *,
    warehouse: str | os.PathLike[str] | None = None,
    force: bool = False,
    spark: Any = None,
) -> Catalog:
    """Make a catalog of others a versioned one of the warehouse, without a copy of its leaves.

    No leaf is opened, but for the margins and indices that the spec asks for. Each call looks whether the
    catalog of others or the spec has changed, and publishes a new version where one has.

    Parameters
    ----------
    spec : AdoptSpec, dict or path
        As in `include/specs/catalogs/<name>.yaml`: `{"name": "gaia", "adopt": {"uri": "s3://..."}}`.
    warehouse : str or Path, optional
        Root of the warehouse. By default `${HIPSLAKE_WAREHOUSE}`.
    force : bool
        Build a version even if the newest one was made of the same.
    spark : pyspark.sql.SparkSession or bool, optional
        A session that makes margins and indices; False: this process does. By default Spark does what is
        large.

    Returns
    -------
    Catalog
        The version that was published. Where there was nothing to do, the newest one; a warning says so.

    Raises
    ------
    SpecError
        The spec is wrong, or the catalog cannot be adopted.
    CatalogNotFoundError, CatalogFormatError
        There is no catalog of others, or what describes it is damaged.
    ConflictError
        It was written anew meanwhile.
    """
    return adopted(spec, warehouse=warehouse, force=force, spark=spark).told()


def adopted(
    spec: AdoptLike,
    *,
    warehouse: str | os.PathLike[str] | None,
    force: bool = False,
    spark: Any = None,
    told: Told | None = None,
) -> Outcome:
    """Adopt as `adopt` does, and return what the run came to; `told` is told of each step."""
    model, spec_file = _spec_of(spec)
    with CatalogRunner(warehouse, "catalog_adopt", model.name, spark=spark, told=told) as runner:
        frozen = runner.resolve("resolve:adopt", spec=model, spec_file=spec_file, force=force)
        if frozen.unchanged_version is not None:
            return runner.unchanged(frozen.unchanged_version, "this state of the catalog of others")
        with runner.nothing_left_on_failure():
            return runner.outcome(runner.perform("adopt").version)


def _spec_of(spec: AdoptLike) -> tuple[AdoptSpec, str]:
    if isinstance(spec, AdoptSpec):
        return spec, ""
    if isinstance(spec, str | os.PathLike):
        path = Path(spec).expanduser().absolute()
        return load_spec(path, AdoptSpec), str(path)
    if not isinstance(spec, Mapping):
        raise SpecError(f"spec: is a {type(spec).__name__}; give a dict, the path of a file, or an AdoptSpec")
    found = validated(AdoptSpec, {**spec}, "spec")
    if "$" in found.adopt.uri:
        return found, ""
    place = found.adopt.model_copy(update={"uri": Storage.at(found.adopt.uri).root})  # from here, if relative
    return found.model_copy(update={"adopt": place}), ""
