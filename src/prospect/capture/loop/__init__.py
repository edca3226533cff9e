"""The recorder's loop: COMMAND, signals, and the rings drained until the end."""
