"""What `Catalog` offers, a module for each idea: the version, its rows, its joins, its upkeep."""
