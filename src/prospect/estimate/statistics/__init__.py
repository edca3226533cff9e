"""Distributions, tests and ranks that estimates are made of; they know nothing of profiles."""
