"""Key records of catalogs in mode upsert: which record of a key wins, and the files that keep them."""
