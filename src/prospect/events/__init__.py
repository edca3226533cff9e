"""Record blocks → columns (numpy) in one pass over the bytes."""
