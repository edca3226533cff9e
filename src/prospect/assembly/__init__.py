"""What the stages found → the tables of a Profile; only `pipeline` calls it."""
