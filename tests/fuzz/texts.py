"""What is typed into forms, spoilt: filters, conditions, expressions, regions, times, thresholds, places."""

from __future__ import annotations

from tests.fuzz import expressions, filters, params, places, regions

TARGETS = (
    filters.FILTER,
    filters.CONDITIONS,
    expressions.EXPRESSION,
    regions.REGION,
    regions.MOC_FILE,
    params.WINDOW,
    params.PARAM,
    params.OPTIONS,
    places.TARGET,
)
