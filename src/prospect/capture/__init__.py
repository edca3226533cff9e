"""Live kernel → record bytes: events, ring buffers, the command, the /proc snapshot."""
