"""Old versions come back or go, with every file that nothing needs any more."""
