"""Bounds on the memory and waiting times of a live session, which may run for months.

SECURITY.md lists those on input.
"""

from __future__ import annotations

# Samples that the profile remembers. More do not change the figures visibly, and each costs 0.2 us
# a look; but a minute of many CPUs is many samples.
LEAST_SAMPLES = 100_000
MOST_SAMPLES = 400_000
# Each part costs a few microseconds a look; at a slow rate as many samples take hours.
MOST_PARTS = 1000
# Services that restart every minute make half a million control groups a year.
MOST_GROUPS = 1 << 14

# Records between two looks: each costs about 10 us a look.
MOST_LOOK_BYTES = 1 << 28
MOST_SIDE_RECORDS = 200_000
# Names and mappings of one process: far more than those with which programs start.
MOST_OF_A_PROCESS = 2048
# Busy processes that notes name.
MOST_NAMED_PROCESSES = 8
# Records of processes that ended without a sample, in memory.
MOST_UNSAMPLED_BYTES = 1 << 26
# Generations of ended processes that are searched for kept descendants.
MOST_GENERATIONS = 64

# Names of runtimes' functions in a session: 8 MB of an interpreter, 32 MB of a user.
MOST_RUNTIME_NAME_BYTES = 64 << 20
# Records of unloading may be lost; no machine has so many BPF programs.
MOST_PROGRAMS = 1 << 14
# More processes than this share an interpreter only if they are forked from one that goes on.
MOST_SHARING_PIDS = 64
# A JIT may map new code for ever, and the kernel records no unmapping.
MOST_MAPS = 4096
# Exits of threads whose fork is not known yet: it arrives within a part or two.
MOST_EARLY_EXITS = 4096

# The poll set does not have a CPU that comes online until the next look.
LONGEST_WAIT_MS = 5000
