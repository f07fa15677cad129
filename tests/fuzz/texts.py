"""What is typed into forms, spoilt: filters, conditions, regions, times, thresholds, places."""

from __future__ import annotations

from tests.fuzz import filters, params, places, regions

TARGETS = (
    filters.FILTER,
    filters.CONDITIONS,
    regions.REGION,
    regions.MOC_FILE,
    params.WINDOW,
    params.PARAM,
    params.OPTIONS,
    places.TARGET,
)
