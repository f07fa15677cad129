"""The compact step: leaves of many files become one sorted file each."""
