"""Catalogs of others: HATS and HiPSCat trees that no log of ours describes, read as they are."""
