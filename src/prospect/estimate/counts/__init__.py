"""Counted calls → how often, and how sure that is."""
