"""Bounds on what a live session may hold and wait for, each with its reason.

SECURITY.md lists those on input. A session may go on for months.
"""

from __future__ import annotations

# The profile's memory. Figures of many more samples change no more while one looks, and each costs
# some 0.2 us a look; but a minute of many CPUs is many samples.
LEAST_SAMPLES = 100_000
MOST_SAMPLES = 400_000
# Each part costs some microseconds a look; a slow rate needs hours for as many samples.
MOST_PARTS = 1000
# Services that start again every minute make half a million control groups a year.
MOST_GROUPS = 1 << 14

# Records between two looks: each costs some 10 us a look.
MOST_LOOK_BYTES = 1 << 28
MOST_SIDE_RECORDS = 200_000
# Of one process: far more than the libraries and threads with which programs start.
MOST_OF_A_PROCESS = 2048
# Processes that were too busy and are named in notes.
MOST_NAMED_PROCESSES = 8
# Records of processes that ended without a sample, in memory.
MOST_UNSAMPLED_BYTES = 1 << 26
# Each generation of orphans whose descendants are kept is a step; more are not looked for.
MOST_GENERATIONS = 64

# Names of runtimes' functions in a session: 8 MB of an interpreter, 32 MB of a user.
MOST_RUNTIME_NAME_BYTES = 64 << 20
# Records of unloading may be lost; no machine has so many BPF programs.
MOST_PROGRAMS = 1 << 14
# More processes than this share an interpreter only if they are forked from one that goes on.
MOST_SHARING_PIDS = 64
# A JIT may map new code for ever, and no record says what it unmapped.
MOST_MAPS = 4096
# Ends of threads whose beginning is not known yet: they wait a part or two for it.
MOST_EARLY_EXITS = 4096

# A CPU that comes online is not among what is waited for until the next look.
LONGEST_WAIT_MS = 5000
