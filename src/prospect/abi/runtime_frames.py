"""Records of the functions of runtimes, such as CPython, at samples.

They are the raw data of samples of the BPF_OUTPUT event `EVENT_NAME`, which a BPF program writes
into the ring of its CPU; docs/recording.md describes them. All numbers are little-endian. Every
record begins with `HEADER`; the rest depends on its kind:

STACK: `count` frames, `FRAME` each, the innermost first; it belongs to the sample that follows it
in its ring, of the same thread. The header ends where its `code` would be.
NAME, FILE, LINES, SCOPE, POSITIONS: `count` bytes of a function's name, file, table of lines, class
and second table, for frames of the same image, code and signature.
IMAGE: a runtime in a process, `IMAGE`; forked processes share it.

In recordings they have the type PERF_RECORD_HIDDEN_SAMPLE, and only the section EVENT_DESC has the
event: perf ignores both, but perf 7 warns of such records of less than LEAST_RECORD_BYTES. So a
stack without frames is longer than its header. Older recordings have records of samples,
`OLD_MAGIC` and an event `OLD_EVENT_NAME`; all their frames are CPython's.
"""

from __future__ import annotations

import struct

from prospect.abi import constants as abi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.abi.attr import EventAttr, EventDescription

EVENT_NAME, OLD_EVENT_NAME = "runtime-frames", "python-frames"
MAGIC, OLD_MAGIC = 0x31467452, 0x31467950  # "RtF1", "PyF1"

# Runtimes.
CPYTHON = 0
RUBY = 1
PHP = 2
V8 = 3
# Their languages, in sentences.
LANGUAGES = {CPYTHON: "Python", RUBY: "Ruby", PHP: "PHP", V8: "JavaScript"}

KIND_STACK = 0
KIND_NAME = 1
KIND_FILE = 2
KIND_LINES = 3
KIND_IMAGE = 4
KIND_SCOPE = 5
KIND_POSITIONS = 6

# The result of a walk, in the header's `status` of a STACK.
WALKED = 0
TRUNCATED = 1  # more frames than fit
NO_KEY = 2  # the runtime's key for thread states could not be read, or is not set
NO_THREAD = 3  # the thread has no state there: it is no thread of the runtime
NO_FRAME = 4  # the thread runs no function of the runtime now: it starts or ends
FAULT = 5  # memory could not be read

# The kind of text, in the header's `status` of a NAME or FILE: bytes a character, and
CUT = 0x100  # there is more of it
BYTES_A_CHARACTER = 0xFF
IS_ASCII = 0x200
IS_UTF8 = 8  # instead of bytes a character: UTF-8, of bytes

# The interval after which names of running code objects are sent again.
SENT_AGAIN_S = 300

# struct perf_record_event_type of tools/lib/perf/include/perf/event.h
LEAST_RECORD_BYTES = 80

MOST_FRAMES = 128
# The most bytes of a frame, which the walker reads in one piece.
MOST_FRAME_BYTES = 96
MOST_NAME_BYTES = 512
MOST_FILE_BYTES = 1024
MOST_LINES_BYTES = 24576

# magic, kind, status, count, walk_ns (STACK) or signature, image; then, except for a STACK, code,
# and the 8 bytes of the code object that the signature is made of, which contain its first line
HEADER = struct.Struct("<IHHIIQQQ")
STACK_BYTES = 24
# code, last instruction, owner or entry mark in the low byte and above it the code's signature
FRAME = struct.Struct("<QII")
# In the mark of a frame of runtimes other than CPython: the outermost frame of its run of the
# evaluation loop.
OUTERMOST = 1
SIGNATURE_SHIFT = 8
# See `signature_of`.
SIGNATURE_MIX = 0xC2B2AE3D27D4EB4F
_SIGNED_MASK = (1 << 64) - 1
# The runtime above its version, as 0x030B, what the reader must know of it, the bounds of its
# code, and those of the evaluation loop. The header's `code` is a number of its user. For CPython
# the reader must know the offset of the instructions in a code object and, above that, the byte of
# `beginning` at which the first line is (0 in older recordings).
IMAGE = struct.Struct("<IIQQQQ")
RUNTIME_SHIFT = 16
VERSION_MASK = (1 << RUNTIME_SHIFT) - 1
FIRST_LINE_SHIFT = 16
INSTRUCTIONS_MASK = (1 << FIRST_LINE_SHIFT) - 1


def signature_of(signed: int) -> int:
    """Return the 24 bits that tell functions at one address apart, from 8 bytes that do."""
    return (signed * SIGNATURE_MIX & _SIGNED_MASK) >> 40


def is_frames_event(attr: EventAttr, name: str) -> bool:
    """Return whether an event is the one whose samples are these records."""
    kind = abi.PERF_TYPE_SOFTWARE, abi.PERF_COUNT_SW_BPF_OUTPUT
    return name in (EVENT_NAME, OLD_EVENT_NAME) and (attr.type, attr.config) == kind


def without_frames_event(events: Sequence[EventDescription]) -> tuple[EventDescription, ...]:
    """Return a recording's events without that of runtimes' frames, unless it is the only one."""
    others = tuple(one for one in events if not is_frames_event(one.attr, one.name))
    return others or tuple(events)
