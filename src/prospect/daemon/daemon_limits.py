"""Bounds of the daemon: sizes, counts, memory and time, each with its reason.

SECURITY.md lists the bounds on input. Those of a live session are in `live.live_limits`.
"""

from __future__ import annotations

# The socket. A request is a word and a name; the status has a few KB.
MOST_REQUEST_BYTES = 4096
MOST_ANSWER_BYTES = 1 << 20
MOST_CLIENTS_WAITING = 8
# A client that connects and is silent must not block the daemon.
ARRIVAL_S = 2.0
# A client waits while a window is written, maybe on a slow disk. It does not wait for the status,
# but shows the last one that the daemon kept in its store.
ANSWER_S = 600.0
STATUS_S = 0.5
MOST_STATUS_BYTES = 1 << 16

# From SIGTERM to the end; parts of it for the last window, within that for names of new files, and
# for sending windows elsewhere. systemd kills after 90 s, `docker stop` after 10.
END_S, LAST_TAKE_S, LAST_NAMES_S, LAST_SEND_S = 9.0, 4.0, 1.5, 1.5
# Windows that wait for the process that writes; beyond that, the current window becomes longer.
MOST_QUEUED, MOST_QUEUED_BYTES = 8, 8 << 20

# Records that wait for decoding, with copies of stacks and without. Decoding takes four times as
# much memory, and 0.1 CPU s each time. 64 busy CPUs at 19 samples a second, with copies of 8 KB,
# make 10 MB a second.
MOST_WAITING_BYTES = 16 << 20
MOST_WAITING_WITHOUT_COPIES_BYTES = 4 << 20
# Samples have 200 bytes without copies: 256 busy CPUs make 1 MB a second.
LOOK_S, LOOK_WITHOUT_COPIES_S = 1.0, 10.0
# The longest interval in which the daemon checks its socket, and notes that it is alive.
LONGEST_LOOK_S = 10.0
# Percent of a machine, and bytes of memory, without copies of stacks and with them.
CPU_LIMIT_PERCENT, MEMORY_LIMIT, MEMORY_LIMIT_WITH_COPIES = 0.5, "200M", "400M"
# From this share of a limit on, the daemon takes a step, so that it stays below.
LIMIT_SHARE = 0.9
# The interval between looks at memory while a window is made: each look takes 20 us.
PEAK_LOOK_S = 0.02
# The daemon forgets names if it has more than this share of its memory between windows.
KEPT_SHARE = 0.6
# The shortest and longest time over which CPU time is averaged: one window may have a large new
# program in it.
MEASURED_S, AVERAGED_S = 100.0, 300.0
# New files whose names are read in a window after the step that limits them.
MOST_NEW_FILES = 4
# A step is taken back after CALM_S below this share of the limits; the time doubles if that was too
# early.
ROOM_SHARE, CALM_S, LONGEST_CALM_S, DIFFICULT_S = 0.6, 600.0, 7200.0, 1800.0
# The machine has slept if its clocks differ by more than this.
LEAST_SLEEP_S = 0.5
# /proc/PID/cgroup has a path.
MOST_CGROUP_BYTES = 4096
# Processes whose services are remembered.
MOST_KNOWN_SERVICES = 20_000
# Names of 10 and 20 MB: symbol tables are read again from the disk's cache.
MOST_ADDRESSES, MOST_SYMBOLS = 1 << 15, 200_000
# Names of runtimes' functions: those of 20 large Python services. One user may have half of it.
MOST_RUNTIME_NAME_BYTES = 32 << 20

# DuckDB's memory in a child that writes a window, and in one that merges an hour or a day of 64
# CPUs.
WRITING_MEMORY, MERGING_MEMORY = "128MB", "384MB"
# systemd's bound on the daemon and its children. It includes pages of files, which the kernel may
# take back. The daemon and the child that writes a window need less than a third of it; the child
# that merges a day of a host of 64 CPUs needs 420 MB.
UNIT_MEMORY = "768M"
# Percent of a CPU: far more than `--cpu-limit` allows over minutes, because reading a large
# program's names needs it for a moment.
UNIT_CPUS = 100
# The line in a child's answer, for a message.
MOST_SAID = 1000
# Oldest segments that make room for one window, on a full disk.
MOST_DROPPED = 16
# The interval between searches for segments that are too old or too many.
TIDY_S = 3600.0

# The delay of sending after the end of an hour: merging an hour needs time, and hosts must not all
# send in the same second.
FIRST_SENDING_S, SENDING_SPREAD_S = 60, 240
RETRY_S, LONGEST_RETRY_S = 60.0, 900.0
# A child that takes longer is killed; the next one continues its work.
LONGEST_SENDING_S = 900.0
# The time for a killed child to end.
KILLED_S = 1.0
# A collector that is away longer gets only the newest windows; the store has all of them.
MOST_WINDOWS_WAITING = 60
# Windows that one child sends.
WINDOWS_AT_ONCE = 10

# The part of the file's name in the name of the temporary file of metrics, which may have at most
# 255 bytes.
MOST_NAME = 48

# Every client that reaches the address may ask for metrics. A head has a few hundred bytes; the
# server answers one client at a time.
LARGEST_HEAD_BYTES, MOST_SCRAPES_WAITING, SCRAPE_S = 1 << 14, 8, 1.0
