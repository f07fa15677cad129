"""Reassign: rows of a catalog in mode upsert are given to other objects."""
