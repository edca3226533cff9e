"""A recording for a browser on this machine: its page, and what the page has no room for."""
