"""The steps of cubes: build, query, copy, remove, clean up."""
