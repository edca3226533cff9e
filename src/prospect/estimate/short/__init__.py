"""The report in short: the first rows of programs and functions, and how sure they are."""
