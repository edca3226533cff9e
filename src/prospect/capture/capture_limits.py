"""Bounds on what the recorder reads, keeps and waits for: counts, sizes, times.

Files of processes, images and memory of processes may be any user's. SECURITY.md lists the bounds
on input.
"""

from __future__ import annotations

# Events. The kernel's files of tracefs have a few KB, those of sysfs a page.
MOST_TRACEFS_BYTES = 1 << 20
MOST_SYSFS_BYTES = 4096
MOST_EVENT_CHARACTERS = 1 << 16
# More than any PFM_PMU_MAX: it grows with each release.
MOST_PFM_UNITS = 4096
# Five values.
MOST_COUNTS_BYTES = 64
# Samples with stack copies may fill it.
LARGEST_RING_BYTES = 32 << 20
# Stack copies of all CPUs that are made by default, in bytes a second.
MOST_DEFAULT_BYTES = 8 << 20
# A BPF program hashes so much of a stack; the kernel verifies that program before COMMAND starts.
LARGEST_COPIED_ONCE_BYTES = 1 << 14

# Counting: keys and lines of a user's program at calls, rows of the kernel's table of system calls,
# and rows of all windows of counting in a long run.
MOST_HOOK_ENTRIES = 1 << 16
MOST_HOOK_LINES = 200
MOST_SYSCALL_ENTRIES = 1 << 22
MOST_WINDOW_ROWS = 200_000

# Following: the kernel's maps take 5 MB, 1 MB and 6 MB. The last one forgets the pieces of stacks
# used least recently; such a piece is copied again.
MOST_FOLLOWED = 1 << 16
MOST_CHOSEN_PROCESSES = 1 << 14
MOST_WAIT_PIECES = 1 << 16

# Containers: descriptions have up to 50 KB. An answer has a few KB for each container, and a node
# has a few hundred containers. The oldest names are forgotten.
LARGEST_STATE_BYTES = 1 << 20
LARGEST_ANSWER_BYTES = 1 << 24
LONGEST_ANSWER_S = 1.0
MOST_LOG_NAMES = 20_000
MOST_KNOWN_CONTAINERS = 10_000

# The machine before COMMAND begins. Control groups beyond this bound get no name.
MOST_CONTROL_GROUPS = 20_000
MOST_THREADS_IN_CALLS = 1 << 14

# Copies of mapped files that may be gone later; they are in memory until the end. Larger files are
# copied in part, symbols and call-frame rows: the largest programs have 40 MB of these. Files in
# containers rarely have debug information, so fewer of them are copied whole.
LARGEST_WHOLE_BYTES = 1 << 24
LARGEST_ELSEWHERE_BYTES = 1 << 22
LARGEST_COPY_BYTES = 1 << 26
MOST_COPIED_BYTES = 1 << 28
# The part for files of users other than root and the recorder's.
MOST_OTHERS_BYTES = 1 << 26
# The part for files that are unlikely to be gone later.
MOST_UNLIKELY_BYTES = 1 << 26
# Files that are held open instead: processes may have 1,024 descriptors, COMMAND maps about 50
# files. A removed one uses disk space until the next look.
MOST_HELD_FILES = 256
HELD_LOOK_S = 1.0
# Builds have about as many. A mapping takes 16 bytes. Programs have about 40 sections.
MOST_COPIES = 1 << 10
MOST_RANGES = 1 << 12
MOST_SECTIONS = 1 << 12
LARGEST_STRINGS_BYTES = 1 << 20
# Recordings hold files with holes up to this size.
LARGEST_SPARSE_BYTES = 1 << 40

# Files on FUSE file systems, whose servers may block the children that copy them: children at once,
# files and bytes of one child, files that wait for a child, and abandoned children, after which no
# further file is read. A child has this time for each answer; at the end all of them have less. A
# file that is mapped again is looked at once a second. If its processes end before it is read, it
# is tried so often.
MOST_SERVED_CHILDREN = 2
MOST_SERVED_AT_ONCE = 64
MOST_SERVED_BYTES = 1 << 26
MOST_SERVED_WAITING = 1 << 10
MOST_LOST_CHILDREN = 4
SERVED_ANSWER_S = 2.0
SERVED_LAST_WORD_S = 0.4
SERVED_AGAIN_S = 1.0
MOST_SERVED_TRIES = 8

# Build ids of mapped files: a file has about 10 segments and notes of 36 bytes, a path 128 bytes.
# At the end, the recorder waits so long for the reader.
MOST_FILE_SEGMENTS = 256
MOST_NOTES_BYTES = 1 << 16
MOST_MAPPED_FILES = 1 << 14
MOST_PATH_BYTES = 1 << 21
FILES_LAST_WORD_S = 1.0

# Files in which JITs name their code. A loop that makes files faster than they are read must not
# block the recorder. At the end, copying all files may take JIT_WHOLE_S.
MOST_NAME_READS = 64
MOST_JIT_FILES = 256
MOST_DIRECTORIES = 256
LARGEST_JIT_FILE_BYTES = 1 << 26
MOST_JIT_BYTES = 1 << 27
MOST_JIT_CHILDREN = 16
JIT_WHOLE_S = 20.0
# About 40,000 mounts.
MOST_MOUNT_BYTES = 1 << 22

# Memory maps of processes, which are part of the recording's description, and facts about processes
# and their control groups. The looks at a process that does not run become rarer, up to this wait.
MOST_MAP_PROCESSES = 4096
MOST_PROCESS_GROUPS = 1 << 16
DEEPEST_PARENTS = 32
LONGEST_WAIT_NS = 60_000_000_000
# A map of 10,000 mappings; larger maps are not kept.
MOST_MAP_BYTES = 1 << 20
MOST_PACKED_BYTES = 1 << 23
MOST_LIMITED_GROUPS = 1000
MOST_LIMITED_PIDS = 64

# Runtimes: reading one file. A usual interpreter takes 40 KB in 60 pieces; a statically linked one
# takes 2 MB in 70, and its symbol table 1 MB.
MOST_READ_BYTES = 16 << 20
MOST_READS = 2048
MOST_SEGMENTS = 256
MOST_ELF_SECTIONS = 512
MOST_DYNAMIC = 1024
MOST_CHAIN = 512
MOST_TABLE_BYTES = 6 << 20
LONGEST_SYMBOL = 32
MOST_SECTION_NAMES = 1 << 14
MOST_SYMBOL_TRIES = 4096
# Getters have a few instructions.
MOST_GETTER_BYTES = 64
MOST_RUBY_GETTER_BYTES = 64
MOST_PHP_GETTER_BYTES = 128
MOST_PHP_GLOBALS = 1 << 14
# The bytes read of these functions, and of the one that rb_id2str() jumps to.
MOST_NAME_CODE_BYTES = 128

# The child that reads such files: the time for an answer, the number of waits, and the largest
# message: a pipe takes as much at once.
FILE_ANSWER_S = 1.0
MOST_WAITS = 8
MOST_MESSAGE = 1 << 16
# Files that a reader remembers for each user; the oldest are forgotten.
MOST_USER_FILES = 64
MOST_READ_USERS = 256
# The time for which a device that did not answer is left alone, and the number of such devices
# after which its owner is. Only root can mount other users' devices.
HELD_UP_S = 60.0
MOST_HELD_UP = 3
# A user's CPU time for reading files at once.
FILES_S = 0.25
MOST_USERS = 1 << 12
# The CPU time charged to a user whose file blocks the reader; the time that the recorder waits for
# the reader at the end.
READER_HELD_UP_S = 1.0
READER_LAST_WORD_S = 0.5

# The walker's maps. They forget the oldest processes, as in a build that runs Python again and
# again.
MOST_IMAGES = 8192
MOST_IMAGE_NUMBERS = 1 << 14
# Bytes after which a sample sends no further name, and the number of names that it sends.
MOST_A_SAMPLE = 1 << 14
MOST_NEW = 16
# Interpreters and threads that one sample looks at; the next sample continues from there.
MOST_PYTHON_STEPS = 16
MOST_MODULES = 1024

# Frames that are read from the memory of a user's own processes. 128 frames with names take half of
# these instructions or less; a longer walk is dropped.
MOST_STEPS = 60_000
# Pieces that one call reads; each is bounded by its reader.
MOST_MEMORY_PIECES = 256
# CPU time for all this at once.
MOST_READING_NS = 20_000_000
# Names that one sample reads, and code objects that are remembered as named.
MOST_NEW_NAMES = 64
MOST_NAMED_CODE = 1 << 16
# Interpreters and threads that one search of a process looks at: it takes 2 µs a thread.
MOST_INTERPRETERS = 64
MOST_PYTHON_THREADS = 4096
# Pages that one walk reads, two for each of 128 frames; 40 frames of usual size are on one.
MOST_WALK_PAGES = 256
# Pages of a thread's last walk that are read with its state: they fit into one call.
MOST_KEPT_PAGES = 12
# Processes that are known to be of a runtime or not. The oldest are forgotten and looked at again.
MOST_KNOWN_PROCESSES = 1 << 14
MOST_KNOWN_THREADS = 1 << 12
MOST_REFUSALS = 1 << 10
# One search for threads' pointers: so many bytes at the end of each of the first mappings without a
# file, because struct pthread is at the end of a stack. Since glibc 2.42 several stacks may be one
# mapping: then the search follows links from thread to thread.
MOST_SEARCHED_BYTES = 1 << 15
MOST_SEARCHED_MAPPINGS = 256
MOST_CANDIDATES = 16
MOST_LINKED = 1024
# Searches in one process for threads that were not found.
MOST_FAILURES = 16

# V8. Names, strings of parts and indirect strings.
MOST_NAME_CHARACTERS = 512
MOST_FILE_CHARACTERS = 1024
MOST_STRING_PARTS = 64
DEEPEST_STRING = 8
# Sources are read to count their lines; only the beginning of larger ones is.
LARGEST_SOURCE_BYTES = 16 << 20
MOST_SOURCE_LINES = 1 << 19
MOST_SCRIPTS = 32
# A table of source positions: large functions have a few KB.
MOST_POSITION_BYTES = 1 << 15
# Bytes in which the beginning of code is searched, and the number of words tried as its header:
# large functions have 50 KB.
LARGEST_CODE_BYTES = 1 << 18
MOST_CODE_TRIES = 64
MOST_INLINED_CALLS = 1 << 12
DEEPEST_INLINED = 32
# The size of an answer without the last function or code: it fits into a pipe at once.
MOST_ANSWER_BYTES = 1 << 14
MOST_OF_CODE_BYTES = 1 << 15
MOST_V8_PROCESSES = 64
MOST_NAMED = 1 << 14
# Functions of all processes and of one that wait for their names; attempts to read something.
MOST_WAITING = 1 << 14
MOST_OF_IMAGE = 1 << 12
MOST_READ_TRIES = 3
MOST_KNOWN = 1 << 14
# The largest table has 24 KB.
LARGEST_RECORD_BYTES = 1 << 15
# Pages that one walk reads of the outer part of a stack, two for each of 128 frames. The main
# thread's stack has 8 MB by default. The first frame that may have called C++ is the right one.
MOST_OUTER_PAGES = 256
LARGEST_STACK_BYTES = 8 << 20
MOST_CALLING_FRAMES = 16
MOST_V8_THREADS = 1 << 12
MOST_KNOWN_CODE = 1 << 16

# JVMs. About 800 structures' fields and as many types are usual, in 60 pages; entries have 48
# bytes.
MOST_VM_ENTRIES = 4096
MOST_ENTRY_BYTES = 256
LONGEST_VM_NAME = 96
MOST_VM_PAGES = 1024
# A segmented code cache has three heaps of 2 GB at most, in segments of 128 bytes; large servers
# have about 20,000 pieces of code.
MOST_HEAPS = 8
LARGEST_HEAP_BYTES = 1 << 31
MOST_HEAP_SEGMENTS = 1 << 23
MOST_PIECES = 1 << 16
LONGEST_CODE_NAME = 64
MOST_FRAME_WORDS = 1 << 20
# A large method has 100 KB of these, and a few hundred pointers to metadata.
MOST_DEBUG_BYTES = 4 << 20
MOST_METADATA = 1 << 14
# Tables of virtual functions of Methods: in the library and in shared archives.
MOST_METHOD_TABLES = 64
LONGEST_JAVA_NAME = 512
MOST_KEPT_NAMES = 1 << 17
# Pieces that one look reads; the next look reads the rest.
MOST_A_LOOK = 1024
# Looks at a piece of code that is unfinished or inconsistent.
MOST_PIECE_TRIES = 8
# A large server has some 1,000 loaders, 30,000 classes and 300,000 methods.
MOST_LOADERS = 1 << 13
MOST_CLASSES = 1 << 16
MOST_METHODS = 1 << 17
MOST_METHODS_OF_A_CLASS = 1 << 13
# Bytes of records: a large server has 20,000 compiled methods of 2.5 KB.
MOST_JVM_BYTES = 60 << 20
MOST_JVM_USER_BYTES = 120 << 20
MOST_JVMS_BYTES = 240 << 20
MOST_JVMS = 256
MOST_JVM_USERS = 1 << 10
MOST_JVM_REFUSALS = 256
MOST_JVM_FAILURES = 10
# The text of a JVM's map: 80,000 mappings.
MOST_JVM_MAP_BYTES = 8 << 20
# News of 4,096 processes.
MOST_NEWS_BYTES = 1 << 14
# Packed pieces of ended JVMs in a session: a build that starts a JVM a second has about 100 KB of
# each.
MOST_ENDED_BYTES = 8 << 20
# CPU seconds that reading a user's processes may take at once.
JVM_AT_ONCE_S = 2.0
# The time for reading a JVM's code as soon as possible at first, in a recording and in a session.
JVM_FIRST_S = 1.0
JVM_FIRST_SESSION_S = 0.3
# The recording waits for the last look at JVMs' new code.
JVM_LAST_S = 2.0
# The longest time from mapping its library until a JVM is ready.
JVM_READY_S = 30.0
# The reader may wait for a CPU; no file system can block it.
JAVA_LAST_WORD_S = 10.0
