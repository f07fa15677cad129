"""Catalogs on disk: layouts, leaf files, metadata, the HATS view, reading and verification."""
