"""Code of a HotSpot JVM in a recording: a jitdump file with additional kinds of records.

Each process has its own compressed file; docs/recording.md describes it. As in any jitdump, a LOAD
for each piece of code has its name, instructions and time. Readers of jitdump files skip the
additional kinds of records. All records begin with `PREFIX`; all numbers are little-endian.

VM: the first record, with the JVM's version.
METHOD: a method, by a number. Its bytecode has addresses in the process, so an interpreted frame
has one too. Then follow its name, which begins with its class, its file and table of lines.
DETAILS: precedes a LOAD: its frame, then the pairs of metadata index and method number, the PcDesc
structures and the scopes that these refer to, as in the JVM's memory.

Source: ``tools/perf/Documentation/jitdump-specification.txt``; for the structures
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
# major version, and the number added to each byte of compressed numbers
VM = struct.Struct("<II")
# number, bytes of bytecode, its address, that of the Method; lengths of class, name, file, lines
METHOD = struct.Struct("<IIQQHHHH")
# words of a frame, offset from which on it is complete, that of the entry from interpreted loops,
# kind, level, pairs, bytes of PcDescs, bytes of scopes
DETAILS = struct.Struct("<iiiHHIII")
PAIR = struct.Struct("<II")

# Kinds of code, for all versions.
CODE_COMPILED = 0
CODE_NATIVE = 1  # wrapper of a native method
CODE_INTERPRETER = 2
CODE_STUB = 3  # functions with different frames, or none
CODE_BARE = 4  # code without a frame: adapters, vtable stubs
CODE_RUNTIME = 5  # stubs with a frame of one size
CODE_UNKNOWN = 6  # replaced between two readings

# The name of a range of addresses that had different code at two readings.
REPLACED = b"[compiled code, replaced between two readings]"
INTERPRETER = b"Interpreter"

# Limits of one record; an untrusted file may exceed them.
MOST_NAME_BYTES = 1024
MOST_LINES_BYTES = 8192
MOST_CODE_BYTES = 1 << 20
