"""Where the tasks of a step run: what a step asks of an engine, and the engine that needs no Spark."""
