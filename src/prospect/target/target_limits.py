"""Bounds on what a target may send, hold up or make wait, each with its reason.

SECURITY.md lists those on input. Those of `target.relay` are declared there, as its source is sent
as it is and imports nothing.
"""

from __future__ import annotations

# What a login shell prints before the recorder does: messages of the day have a few KB. Logins that
# start programs take seconds, from its first byte to its last.
MOST_GREETING_BYTES = 1 << 16
GREETING_S = 60.0
# A larger file of the target is left without names.
LARGEST_FILE_BYTES = 1 << 30
# A file of a target without Python is sent as a whole.
LARGEST_WHOLE_FILE_BYTES = 256 << 20
# One line of counts, in memory.
LONGEST_COUNTS_BYTES = 1 << 20
# Next to the records of a bounded recording: what describes them, and the beginning that is sent
# again.
MOST_MORE_BYTES = 256 << 20
# A request to the target: paths of at most so many files.
MOST_REQUEST_BYTES = 1 << 24
MOST_FILES = 1000
# Files of one look of a session, which waits for them.
MOST_LIVE_FILES = 64
# Stacks lead from object to object, as far as each one's call-frame information is here.
MOST_ROUNDS = 4
# pid_t's.
MOST_PID = (1 << 31) - 1

# One part of a live session; there are four a second.
MOST_CHUNK_BYTES = 1 << 29
# Parts that wait here for somebody to ask for them; then the target waits.
MOST_CLIENT_WAITING_BYTES = 1 << 28
# Parts that wait there for the connection; then samples are lost, and counted.
MOST_SAMPLER_BYTES = 1 << 28
# Of the recording this much may wait in memory for a slow connection; then the kernel's own
# buffers fill up, and it counts the samples that it loses.
MOST_AGENT_WAITING_BYTES = 64 << 20
# Packages of the recorder on disk; the least recently used are removed.
MOST_PACKAGE_BYTES = 4 << 20

# A target that is asked for something answers, or sends the next piece of a file, within this.
ANSWER_S = 60.0
QUIET_S = 60.0
# A session begins: the recorder is sent, compiled and started there.
START_S = 120.0
# There are four parts a second; after so long without one the connection is lost.
SILENCE_S = 20.0
# ssh ends once its input is closed.
END_S = 5.0
