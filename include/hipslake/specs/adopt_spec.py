"""Specs of catalogs that are adopted: others wrote them, and their leaves stay where they are."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator

from hipslake.specs.base import ColumnNames, Frozen, NamedSpec, repeated
from hipslake.specs.hips_spec import HipsSpec
from hipslake.specs.margin_spec import MarginSpec
from hipslake.specs.schedule import check_cron
from hipslake.specs.secrets import secret_in
from hipslake.specs.vacuum_spec import VacuumSpec


class AdoptedSource(Frozen):
    """The catalog of others: a HATS or HiPSCat tree, or a collection."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    uri: str = Field(min_length=1)  # ${VARIABLES} are expanded
    # Whether leaves are copied into the warehouse; else they are read where they lie.
    copy_leaves: bool = Field(default=False, alias="copy")

    @field_validator("uri")
    @classmethod
    def _holds_no_secret(cls, uri: str) -> str:
        if (secret := secret_in(uri)) is not None:
            raise ValueError(
                f"holds {secret}, and would stand in the catalog's metadata; credentials come from the "
                "environment or an Airflow connection (HIPSLAKE_STORAGE_CONN)"
            )
        return uri


class AdoptSpec(NamedSpec):
    """One catalog that others wrote, as one of the warehouse: `include/specs/catalogs/<name>.yaml`."""

    spec_folder = "catalogs"
    of_no_outcome = frozenset({"schedule", "vacuum", "hips", "wait_minutes"})

    adopt: AdoptedSource
    attribution: str = ""  # licence and credit of the data; "": as the catalog itself says
    index: ColumnNames = ()  # columns whose values are looked up
    margin: MarginSpec = MarginSpec()  # built beside it
    schedule: Annotated[str, AfterValidator(check_cron)] | None = None  # when to look; None: by hand
    # How long a run waits for a change, where there is none yet.
    wait_minutes: float = Field(default=0.0, ge=0.0, le=525_600.0, allow_inf_nan=False)
    vacuum: VacuumSpec = VacuumSpec()
    hips: HipsSpec | None = None

    @model_validator(mode="after")
    def _columns_stand_once(self) -> AdoptSpec:
        if twice := repeated(self.index):
            raise ValueError(f"index: {', '.join(twice)} stands twice")
        return self
