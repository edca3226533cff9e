"""The command line; one module per command.

Only `main`, `record`, `compare`, `stat` and the modules that they import at their top run before
COMMAND's exec; the others may import numpy and all stages.
"""
