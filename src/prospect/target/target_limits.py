"""Bounds on the data of a target and on waiting for it, each with its reason.

SECURITY.md lists the bounds on input. Those of `target.relay` are in that module, whose source is
sent unchanged and imports nothing.
"""

from __future__ import annotations

# The output of a login shell before the recorder's: messages of the day have a few KB. Logins that
# start programs take seconds, from the first byte to the last.
MOST_GREETING_BYTES = 1 << 16
GREETING_S = 60.0
# Functions in larger files of the target have no names.
LARGEST_FILE_BYTES = 1 << 30
# A file of a target without Python is sent as a whole.
LARGEST_WHOLE_FILE_BYTES = 256 << 20
# One line of counts, in memory.
LONGEST_COUNTS_BYTES = 1 << 20
# The description of a bounded recording, and its beginning, which is sent again, in addition to the
# records.
MOST_MORE_BYTES = 256 << 20
# A request to the target, and the number of files to fetch at once.
MOST_REQUEST_BYTES = 1 << 24
MOST_FILES = 1000
# Files that one look of a session fetches and waits for.
MOST_LIVE_FILES = 64
# Rounds of fetching: unwinding continues into the next object once its call-frame information is
# here.
MOST_ROUNDS = 4
# The largest pid_t.
MOST_PID = (1 << 31) - 1

# One part of a live session; there are four a second.
MOST_CHUNK_BYTES = 1 << 29
# Parts that wait here for a look; beyond that, the target waits.
MOST_CLIENT_WAITING_BYTES = 1 << 28
# Parts that wait there for the connection; beyond that, samples are lost and counted.
MOST_SAMPLER_BYTES = 1 << 28
# The part of the recording that may wait in memory for a slow connection; beyond that, the kernel's
# buffers fill up, and it counts the samples that it loses.
MOST_AGENT_WAITING_BYTES = 64 << 20
# Packages of the recorder on disk; the least recently used are removed.
MOST_PACKAGE_BYTES = 4 << 20

# The time for an answer of the target, and for the next piece of a file.
ANSWER_S = 60.0
QUIET_S = 60.0
# The time to send, compile and start the recorder at the beginning of a session.
START_S = 120.0
# The time without a part after which the connection counts as lost; there are four parts a second.
SILENCE_S = 20.0
# The time for ssh to end after its input is closed.
END_S = 5.0
