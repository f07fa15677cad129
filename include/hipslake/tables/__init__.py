"""Iceberg tables: partition transforms, shuffle planning, data files and their commits."""
