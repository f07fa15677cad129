"""The units of positions; without numpy, as specs are read by DAG files."""

from __future__ import annotations

from typing import Literal

PositionUnit = Literal["deg", "rad", "hour"]
"""Of both coordinates; with hours, latitudes are in degrees."""
