"""Work on whole numpy columns that several rooms do: sorting, grouping, hashing, taking rows."""
