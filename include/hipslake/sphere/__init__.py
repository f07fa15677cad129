"""Pixels, coordinates and pixel trees on the sphere: numpy and healpy, no I/O."""
