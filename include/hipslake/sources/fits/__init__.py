"""FITS sources."""
