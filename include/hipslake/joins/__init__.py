"""Joins: which leaves meet, which rows match, how two rows become one. Arrays and tables, no I/O."""
