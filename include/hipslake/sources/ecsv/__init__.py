"""ECSV sources."""
