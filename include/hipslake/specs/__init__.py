"""Frozen models of what users write: one YAML file, one spec."""
