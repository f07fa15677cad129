"""The two kinds of places behind `hipslake.storage`: POSIX file systems, and whatever else fsspec reaches."""
