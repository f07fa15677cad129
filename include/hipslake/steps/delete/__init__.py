"""Rows are taken out of a published catalog on request: by keys, by a filter, or in a region."""
