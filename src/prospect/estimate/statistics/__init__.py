"""Distributions, tests and ranks for estimates, independent of profiles."""
