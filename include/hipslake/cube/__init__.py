"""Cubes: many datasets, one virtual table around a seed. The modules here are pure; `store` does the I/O."""
