"""Cubes on disk: versions, files, indices, and the operations that change them."""
