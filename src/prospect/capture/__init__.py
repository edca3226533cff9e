"""The live kernel as a source of records: events, rings, the command, the state of the machine.

This is the only room that calls the kernel directly. ``prospect COMMAND`` imports it before the
command's start, so it imports nothing heavy.

Defined by: perf_event_open(2), ``include/uapi/linux/perf_event.h`` (Linux 6.18), proc(5).
"""
