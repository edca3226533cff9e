"""The kernel's perf ABI as data: constants, event attributes, record layouts, record blocks.

Source: ``include/uapi/linux/perf_event.h`` (Linux 6.18). ``prospect COMMAND`` loads this room
before COMMAND starts, so it imports only cheap modules (no numpy).
"""
