"""Print the JSON Schema of metadata.json."""

from __future__ import annotations

from hipslake.catalog.metadata import json_schema

if __name__ == "__main__":
    print(json_schema(), end="")
