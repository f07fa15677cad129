"""The drain step: what has come since the last run goes into a table, batch by batch."""
