"""The commit: a log of versions, the pointers to the newest one, and what unfinished writes leave behind."""
