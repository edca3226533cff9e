"""Results of the stages → the tables of a Profile; only `pipeline` calls it."""
