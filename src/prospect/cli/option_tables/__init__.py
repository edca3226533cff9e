"""The options by what they are about: each is one row of one table."""
