"""The change feed: the rows that were inserted, updated and deleted between two versions of a catalog."""
