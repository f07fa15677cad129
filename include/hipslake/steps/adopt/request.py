"""Requests and reports of the steps that adopt a catalog of others: what they are told, and what they say."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from hipslake.specs.adopt_spec import AdoptSpec
from hipslake.specs.base import Frozen
from hipslake.steps.index.request import FILE_ENTRIES
from hipslake.steps.ingest.request import CatalogRunRequest
from hipslake.steps.report import CatalogReport, Report, Request
from hipslake.steps.run import RunFolder

FROZEN = "adopt/frozen.json"
"""What the run has frozen of the catalog of others, in the run folder."""


class FrozenAdoption(Frozen):
    """The catalog of others as it was when the run began."""

    spec: AdoptSpec
    uri: str
    state: str  # digest of what names its leaves


class ResolveAdoptRequest(CatalogRunRequest):
    """Start a run of a spec that adopts a catalog."""

    outputs: ClassVar[tuple[str, ...]] = (RunFolder.RUN, RunFolder.FILES, FROZEN)

    spec: AdoptSpec | None = None  # handed over by a program, in place of what `spec_file` says


class ResolveAdoptReport(Report):
    """What the run froze."""

    step: str = ResolveAdoptRequest.step
    catalog: str = ""
    write_id: str = ""
    uri: str = ""  # of the catalog of others
    state: str = ""
    leaves: int = 0
    unchanged_version: int | None = None  # not None: there is nothing to do


class AdoptRequest(Request):
    """Commit a version that has the leaves of the catalog of others for its own."""

    step: ClassVar[str] = "adopt"

    file_rows: int = Field(default=FILE_ENTRIES, ge=1)  # entries of a file of an index, about


class AdoptReport(CatalogReport):
    """Rows in: those of the catalog of others. Rows out: those of the version."""

    step: str = AdoptRequest.step
    leaves: int = 0
    copied: int = 0  # bytes of leaves that were copied
    margin_rows: dict[str, int] = Field(default_factory=dict)
    indices: tuple[str, ...] = ()
