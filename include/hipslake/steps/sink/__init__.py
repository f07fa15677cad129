"""The sink step: rows go into an Iceberg table."""
