"""The upkeep of catalogs and tables: verify, repair, views, rollback, vacuum."""
