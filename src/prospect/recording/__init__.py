"""One run: from what was asked for to the finished recording or counts. Free of numpy."""
