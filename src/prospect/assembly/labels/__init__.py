"""Labels of samples: the request, transaction or step that a thread was at."""
