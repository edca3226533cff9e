"""Mapping and task records → which object stood at (process, time, address)."""
