"""Switches of the scheduler → what each thread did with its time."""
