"""Of which format a table is, and where it stands: in an Iceberg catalog, or in a folder of Delta Lake."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import (
    Field,
    field_validator,
    model_validator,
)

from hipslake.specs.base import Frozen
from hipslake.specs.secrets import is_secret_name, secret_in


class IcebergSpec(Frozen):
    """The Iceberg catalog that a table stands in.

    By default an SQL catalog on SQLite, in the state folder (`HIPSLAKE_STATE`); SQLite is for warehouses on
    disks, and for writers on one machine. Secrets do not stand here: pyiceberg takes them from the
    environment (`PYICEBERG_CATALOG__<NAME>__TOKEN`, `..__CREDENTIAL`, `..__URI`), where an Airflow connection
    puts them. Glue's keys are those of AWS, by its own variables.
    """

    type: Literal["sql", "rest", "glue", "hive"] = "sql"
    name: str = Field(default="hipslake", pattern=r"^[A-Za-z][A-Za-z0-9_]*$")
    uri: str | None = Field(default=None, min_length=1)  # None: SQLite in the state folder, or by connection
    warehouse: str | None = Field(
        default=None, min_length=1
    )  # where new tables lie; None: `<warehouse>/tables`
    connection: str | None = Field(
        default=None, min_length=1
    )  # id of the Airflow connection with address and keys
    properties: dict[str, str] = Field(default_factory=dict)  # further ones, as pyiceberg knows them

    @model_validator(mode="after")
    def _fits(self) -> IcebergSpec:
        if self.type == "rest" and self.uri is None and self.connection is None:
            raise ValueError("uri: a REST catalog has an address; give uri, or connection")
        if self.type == "sql" and self.uri is not None and self.connection is not None:
            raise ValueError("uri: the connection holds the address of the database; leave one of them out")
        if self.type == "hive" and self.uri is None:
            raise ValueError(
                "uri: a Hive metastore has an address, such as thrift://metastore:9083; give uri"
            )
        if self.type == "glue" and self.uri is not None:
            raise ValueError(
                "uri: Glue is found by its region; leave it out, or give properties: {glue.endpoint: ...}"
            )
        if self.type in ("glue", "hive") and self.connection is not None:
            raise ValueError(
                f"connection: a catalog of type {self.type} takes none; leave it out (Glue's keys are those "
                "of AWS in the environment)"
            )
        addresses = {"uri": self.uri or "", "warehouse": self.warehouse or "", **self.properties}
        for name, address in addresses.items():
            if secret_in(address) is not None:
                place = name if name in ("uri", "warehouse") else f"properties: {name}"
                raise ValueError(
                    f"{place}: holds {secret_in(address)}; put it into an Airflow connection and name that"
                )
        if secret := sorted(name for name in self.properties if is_secret_name(name)):
            variable = f"PYICEBERG_CATALOG__{self.name}__{secret[0].replace('.', '__').replace('-', '_')}"
            raise ValueError(
                f"properties: {', '.join(secret)} is a secret, and would stand in run folders; set "
                f"{variable.upper()} in the environment, or put it into an Airflow connection and name that"
            )
        return self


class SunkFormat(StrEnum):
    """Which format a table is of."""

    ICEBERG = "iceberg"
    DELTA = "delta"


class DeltaSpec(Frozen):
    """Where tables of Delta Lake lie: each in a folder `<location>/<namespace>/<table>`.

    They need no catalog: the log in a table's folder is all that there is. Object stores take their keys from
    the environment, as all of hipslake does.
    """

    location: str | None = Field(default=None, min_length=1)  # None: `<warehouse>/delta`

    @field_validator("location")
    @classmethod
    def _holds_no_secret(cls, given: str | None) -> str | None:
        if secret_in(given or "") is not None:
            raise ValueError(f"holds {secret_in(given or '')}; put it into the environment")
        return given


def check_place(form: SunkFormat, iceberg: IcebergSpec, delta: DeltaSpec) -> None:
    """Raise `ValueError` where a spec says where a table of the other format stands."""
    if form is SunkFormat.DELTA and iceberg != IcebergSpec():
        raise ValueError("iceberg: a table of format delta stands in no Iceberg catalog; leave it out")
    if form is SunkFormat.ICEBERG and delta != DeltaSpec():
        raise ValueError(
            "delta: says where tables of format delta lie; write 'format: delta', or leave it out"
        )


TablePlace = IcebergSpec | DeltaSpec
"""Where a table stands: in a catalog, or in a folder."""


def place_of(form: SunkFormat, iceberg: IcebergSpec, delta: DeltaSpec) -> TablePlace:
    """Where a table of a format stands, of both that a spec has."""
    return delta if form is SunkFormat.DELTA else iceberg


class PlacedTable(Frozen):
    """What says of which format a table is, and where it stands."""

    format: SunkFormat = SunkFormat.ICEBERG
    iceberg: IcebergSpec = IcebergSpec()
    delta: DeltaSpec = DeltaSpec()

    @property
    def place(self) -> TablePlace:
        """Where the table stands."""
        return place_of(self.format, self.iceberg, self.delta)
