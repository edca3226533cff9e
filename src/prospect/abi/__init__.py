"""The kernel's perf ABI as data: constants, event attributes, record layouts, record blocks.

Defined by ``include/uapi/linux/perf_event.h`` (Linux 6.18). This room is on the way of
``prospect COMMAND`` to the command's start: nothing here may import more than the
interpreter's cheap modules (no numpy).
"""
