"""The steps of a run: a folder for each family, with the requests, the reports and the work of its steps."""
