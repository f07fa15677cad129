"""The index step: where the values of columns lie."""
