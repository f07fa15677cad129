"""The forms of DAGs: what a user may choose for one run, with types, bounds and help."""
