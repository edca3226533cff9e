"""Profiles → how far their figures can be trusted: error bars, alarms, the sample accounting."""
