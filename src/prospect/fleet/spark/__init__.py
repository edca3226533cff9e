"""Spark answers queries of a store: the only room that imports pyspark and sqlglot."""
