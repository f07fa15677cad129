"""Operators: one per step of the library."""
