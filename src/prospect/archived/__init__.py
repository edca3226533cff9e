"""What naming, lines and code gave for a recording here, to be given again elsewhere."""
