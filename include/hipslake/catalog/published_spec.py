"""The spec that a published version was made by, also where a rule is younger than the version."""

from __future__ import annotations

from pydantic import ValidationError

from hipslake.catalog.metadata import CatalogMetadata
from hipslake.errors import CatalogFormatError
from hipslake.specs.base import first_mistake
from hipslake.specs.catalog_spec import CatalogSpec


def published_spec(metadata: CatalogMetadata) -> CatalogSpec:
    """Return the spec of the run that made a version.

    What a spec says of when runs are done is not held against rules, since it made nothing of the version:
    where it breaks one, it is left out.

    Raises
    ------
    CatalogFormatError
        The metadata hold no spec of a catalog.
    """
    try:
        return CatalogSpec.model_validate(metadata.spec)
    except ValidationError:
        made = {key: value for key, value in metadata.spec.items() if key not in CatalogSpec.of_no_outcome}
    try:
        return CatalogSpec.model_validate(made)
    except ValidationError as error:
        raise CatalogFormatError(
            f"catalog {metadata.catalog}, version {metadata.version}: the spec in its metadata.json: "
            f"{first_mistake(error)} (written by hipslake {metadata.library_version}); restore the file, or "
            "upgrade hipslake if it is older"
        ) from error
