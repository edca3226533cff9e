"""Many hosts: what people name as a store → one that can be read; questions about all of it."""
