"""perf.data ↔ record blocks: header, attributes, features, compressed records, pipe mode."""
