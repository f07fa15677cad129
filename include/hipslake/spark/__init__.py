"""The Spark side of the steps: the only package that imports pyspark."""
