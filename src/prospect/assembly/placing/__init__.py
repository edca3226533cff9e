"""Mappings and addresses → which object each address is in, and its name."""
