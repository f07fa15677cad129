"""The steps of an ingest: resolve, inputs, histogram, plan, write, publish."""
