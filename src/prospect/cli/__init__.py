"""The command line: one file a command, all options in one table (`options`)."""
