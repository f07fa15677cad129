"""Whether a version is what its metadata says: every file, and what all files must be together."""
