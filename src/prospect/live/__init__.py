"""A profile that goes on: records of the running kernel → a `Profile` of all that was seen."""
