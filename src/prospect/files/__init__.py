"""Files that another file or process names, opened with the rights of the user who named them."""
