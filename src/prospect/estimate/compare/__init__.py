"""Profiles of two sides → what changed, and how sure that is."""
