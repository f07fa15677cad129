"""Space-filling-curve clustering: curves, range ids, placement of rows to files, and how well files skip."""
