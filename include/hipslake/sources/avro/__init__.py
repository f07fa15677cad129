"""Avro sources."""
