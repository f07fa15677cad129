"""Triggers: the waiting, done in the triggerer, so that no worker slot is held."""
