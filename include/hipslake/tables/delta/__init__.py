"""Delta Lake tables: all that knows the log of a table, and what its actions mean."""
