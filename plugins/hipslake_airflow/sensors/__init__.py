"""Sensors: what a run waits for."""
