"""Hooks: the way out to Spark, to stores and to Iceberg catalogs."""
