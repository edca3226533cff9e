"""The running kernel, for months → the windows of a store; and who may tell the daemon what."""
