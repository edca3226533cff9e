"""Debug-file servers: what is asked of them, and what they sent."""
