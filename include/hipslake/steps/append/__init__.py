"""The append step: the rows of a run become an increment of the newest version."""
