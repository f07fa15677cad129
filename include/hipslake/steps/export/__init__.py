"""The export step: rows of a catalog as one file."""
