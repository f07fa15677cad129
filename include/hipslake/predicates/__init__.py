"""What a predicate means: its tree, its texts, the evaluation of rows, and what may be skipped for it."""
