"""The running kernel, for months → the windows of a store; who may ask the daemon for what."""
