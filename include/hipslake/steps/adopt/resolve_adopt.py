"""Resolve an adoption: freeze the spec, the state of the catalog of others, and what it becomes."""

from __future__ import annotations

from hipslake.specs.adopt_spec import AdoptSpec
from hipslake.specs.spec_folder import load_spec
from hipslake.steps.adopt.others import adopted_spec, inputs_of, open_others, owner_of
from hipslake.steps.adopt.request import FROZEN, FrozenAdoption, ResolveAdoptReport, ResolveAdoptRequest
from hipslake.steps.first import freeze_derived
from hipslake.steps.report import Phases


def run(request: ResolveAdoptRequest) -> ResolveAdoptReport:
    """Freeze the run. No leaf is opened.

    Raises
    ------
    CatalogNotFoundError, CatalogFormatError
        If there is no catalog of others, or what describes it is damaged.
    SpecError
        If the spec is wrong, or the catalog cannot be adopted.
    NotWritableError, NoSpaceError
        If the warehouse cannot take a catalog.
    """
    phases = Phases()
    with phases("spec"):
        spec = request.spec or load_spec(request.spec_file, AdoptSpec)
    with phases("catalog"):
        _, others = open_others(spec, request.warehouse)
        inputs = inputs_of(spec, others)
    outcome = adopted_spec(spec, others)
    frozen, unchanged = freeze_derived(request, outcome, owner_of(spec), inputs, phases)
    told = FrozenAdoption(spec=spec, uri=inputs.files[0].uri, state=others.write_id)
    request.folder.write(FROZEN, told)
    return ResolveAdoptReport(
        catalog=spec.name,
        write_id=frozen.write_id,
        uri=told.uri,
        state=told.state,
        leaves=others.groups[0].leaves,
        unchanged_version=unchanged,
        seconds=phases.seconds,
    )
