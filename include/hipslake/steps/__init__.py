"""The steps of a run: what each is told (a request), what it says (a report), and those without Spark."""
