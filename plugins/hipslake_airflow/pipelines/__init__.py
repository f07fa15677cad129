"""What is done with specs: each module here is a pipeline, which makes DAGs of the specs that it is for."""
