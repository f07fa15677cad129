"""Joins of catalogs: which leaves meet, which rows match, and how two rows become one. Arrays and tables, no I/O."""
