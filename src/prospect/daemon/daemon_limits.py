"""Bounds of the daemon: sizes, counts, memory and time, each with its reason.

SECURITY.md lists those on input. Those of a live session are in `live.live_limits`.
"""

from __future__ import annotations

# The socket. A request is a word and a name; the status has a few KB.
MOST_REQUEST_BYTES = 4096
MOST_ANSWER_BYTES = 1 << 20
MOST_CLIENTS_WAITING = 8
# A client that connects and is silent must not hold the daemon up.
ARRIVAL_S = 2.0
# A client waits for a window that is written, maybe on a slow disk; for the status it does not:
# then it shows the last one that the daemon kept in its store.
ANSWER_S = 600.0
STATUS_S = 0.5
MOST_STATUS_BYTES = 1 << 16

# From SIGTERM to the end, of that for the last window, in it for names of files that were not read
# before, and for what sends windows elsewhere. systemd kills after 90 s, `docker stop` after 10.
END_S, LAST_TAKE_S, LAST_NAMES_S, LAST_SEND_S = 9.0, 4.0, 1.5, 1.5
# Windows that wait for the process that writes; more become one with the next.
MOST_QUEUED, MOST_QUEUED_BYTES = 8, 8 << 20

# Records that wait until the daemon takes them in, with copies of stacks and without: decoding them
# takes four times as much memory, and each time 0.1 CPU s. 64 busy CPUs at 19 samples a second,
# with copies of 8 KB, make 10 MB a second.
MOST_WAITING_BYTES = 16 << 20
MOST_WAITING_WITHOUT_COPIES_BYTES = 4 << 20
# Samples have 200 bytes without copies: 256 busy CPUs make 1 MB a second.
LOOK_S, LOOK_WITHOUT_COPIES_S = 1.0, 10.0
# The daemon sees to its socket, and notes that it is alive, at least this often.
LONGEST_LOOK_S = 10.0
# Percent of a machine, and bytes of memory, without copies of stacks and with them.
CPU_LIMIT_PERCENT, MEMORY_LIMIT, MEMORY_LIMIT_WITH_COPIES = 0.5, "200M", "400M"
# The daemon goes without something from this share of a limit on, so that it stays below.
LIMIT_SHARE = 0.9
# Memory is looked at this often while a window is made: each look takes 20 us.
PEAK_LOOK_S = 0.02
# It forgets the names that it keeps if it has more than this share of its memory between windows.
KEPT_SHARE = 0.6
# CPU time is compared over this long at least, as one window may have a large new program in it,
# and over this long at most.
MEASURED_S, AVERAGED_S = 100.0, 300.0
# Files whose names are read for the first time in a window, where they are to be few.
MOST_NEW_FILES = 4
# A step is taken back below this share of the limits, after so long; if that was too early, after
# twice as long the next time.
ROOM_SHARE, CALM_S, LONGEST_CALM_S, DIFFICULT_S = 0.6, 600.0, 7200.0, 1800.0
# The machine has slept if its clocks differ by more than this.
LEAST_SLEEP_S = 0.5
# /proc/PID/cgroup has a path.
MOST_CGROUP_BYTES = 4096
# Services of so many processes are remembered.
MOST_KNOWN_SERVICES = 20_000
# Names of 10 and 20 MB: symbol tables are read again from the disk's cache.
MOST_ADDRESSES, MOST_SYMBOLS = 1 << 15, 200_000
# Names of runtimes' functions: those of 20 large Python services. Half is for one user.
MOST_RUNTIME_NAME_BYTES = 32 << 20

# DuckDB's memory in a child. An hour or a day of 64 CPUs takes as much as the second one.
WRITING_MEMORY, MERGING_MEMORY = "128MB", "384MB"
# systemd's bound on the daemon and its children. It counts pages of files, which the kernel may
# take back; the daemon and the child that writes a window need less than a third of it, the child
# that merges a day of a host of 64 CPUs 420 MB, as measured.
UNIT_MEMORY = "768M"
# Percent of a CPU: far more than `--cpu-limit` allows over minutes, for the moment in which a large
# program's names are read.
UNIT_CPUS = 100
# The line that a child says, for a message.
MOST_SAID = 1000
# Oldest segments that make room for one window, on a full disk.
MOST_DROPPED = 16
# Segments that are too old or too much are looked for this often.
TIDY_S = 3600.0

# Hours are sent so long after their end: what merges an hour needs time, and hosts must not all
# send in the same second.
FIRST_SENDING_S, SENDING_SPREAD_S = 60, 240
RETRY_S, LONGEST_RETRY_S = 60.0, 900.0
# A child that takes longer is killed; the next one goes on where it was.
LONGEST_SENDING_S = 900.0
# For a child to end that was killed.
KILLED_S = 1.0
# A collector that is away longer gets the newest windows; all of them are in the store.
MOST_WINDOWS_WAITING = 60
# Windows that one child sends.
WINDOWS_AT_ONCE = 10

# The temporary file of metrics has so much of the file's name: a name has at most 255 bytes.
MOST_NAME = 48

# Anybody who reaches the address can ask for metrics: a head has a few hundred bytes, and one
# client at a time is answered.
LARGEST_HEAD_BYTES, MOST_SCRAPES_WAITING, SCRAPE_S = 1 << 14, 8, 1.0
