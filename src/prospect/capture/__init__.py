"""The live kernel as a source of records: events, rings, the command, the state of the machine.

Comes in: a command, a rate, privileges as they are. Goes out: raw record bytes in the order of
the kernel's ring buffers, and facts about the run. The only room that calls the kernel directly.
On the way of ``prospect COMMAND`` to the command's start: nothing heavy is imported here.

Defined by: perf_event_open(2), ``include/uapi/linux/perf_event.h`` (Linux 6.18), proc(5).
"""
