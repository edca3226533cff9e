"""The one door to files that another file or process names."""
