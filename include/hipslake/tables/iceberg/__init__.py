"""Iceberg tables: all that knows pyiceberg."""
