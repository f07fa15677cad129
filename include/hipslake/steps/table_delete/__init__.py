"""Rows are taken out of an Iceberg table on request: by keys, or by a filter."""
