"""Archives: the answers of naming, lines and code for a recording, to be given again elsewhere."""
