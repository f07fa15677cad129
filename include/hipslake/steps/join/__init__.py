"""The join steps: two catalogs become a third, by position or by key."""
