"""What Prospect reads of a HotSpot JVM, as it is in a recording: a jitdump file with more records.

Each process has its own file, which is compressed and kept as docs/recording.md says. Code is
in the file as any JIT writes it: a LOAD for each piece, with name, instructions and time. Further
kinds of records, which readers of jitdump files skip, hold what a JVM knows besides. All begin
with the same `PREFIX`, and all numbers are little-endian.

VM: first, which JVM it is.
METHOD: a method, by a number. Its bytecode has addresses in the process, so that an interpreted
frame has one too. Then follow its name, which begins with its class, its file and table of lines.
DETAILS: of the LOAD that follows: its frame, then the pairs of metadata index and method number,
the PcDesc structures and the scopes that these lead to, as the JVM has them in its memory.

Defined by: ``tools/perf/Documentation/jitdump-specification.txt``; for the structures
``src/hotspot/share/code`` of OpenJDK 8 to 25.
"""

from __future__ import annotations

import struct

MAGIC = 0x4A695444
VERSION = 1
# magic, version, size of this header, ELF machine, padding, pid, time, flags
FILE_HEADER = struct.Struct("<IIIIIIQQ")

# kind, size of the whole record, time
PREFIX = struct.Struct("<IIQ")
KIND_LOAD = 0
KIND_VM = 0x4A560000
KIND_METHOD = 0x4A560001
KIND_DETAILS = 0x4A560002

# pid, tid, virtual address, address of the code, its size, its index; then the name and a NUL
LOAD = struct.Struct("<IIQQQQ")
# major version, and what is added to each byte of compressed numbers
VM = struct.Struct("<II")
# number, bytes of bytecode, its address, that of the Method; lengths of class, name, file, lines
METHOD = struct.Struct("<IIQQHHHH")
# words of a frame, offset from which on it is complete, that of the entry from interpreted loops,
# kind, level, pairs, bytes of PcDescs, bytes of scopes
DETAILS = struct.Struct("<iiiHHIII")
PAIR = struct.Struct("<II")

# Kinds of code, as all versions are told apart here.
CODE_COMPILED = 0
CODE_NATIVE = 1  # wrapper of a native method
CODE_INTERPRETER = 2
CODE_STUB = 3  # functions with frames of different kinds, some without one
CODE_BARE = 4  # code that has no frame: adapters, vtable stubs
CODE_RUNTIME = 5  # stubs with a frame of one size
CODE_UNKNOWN = 6  # replaced between two readings

# The name of a range of addresses that had different code at two readings.
REPLACED = b"[compiled code, replaced between two readings]"
INTERPRETER = b"Interpreter"

# Limits of one record, which an untrusted file may break.
MOST_NAME_BYTES = 1024
MOST_LINES_BYTES = 8192
MOST_CODE_BYTES = 1 << 20
