"""perf.data in and out: files, pipes, either byte order, whole or damaged.

Comes in: a file, a stream, or (for the writer) the records of a live kernel. Goes out:
RecordBlocks and a RecordingInfo, or a file that every reader of perf.data understands.
The format is defined by ``tools/perf/Documentation/perf.data-file-format.txt`` and by
``tools/perf/util/header.c`` of the Linux sources.
"""
