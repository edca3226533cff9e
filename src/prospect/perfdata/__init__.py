"""perf.data in and out: files, pipes, either byte order, whole or damaged.

A recording becomes RecordBlocks and a RecordingInfo; the records of a live kernel become a file
that every reader of perf.data understands.
The format is defined by ``tools/perf/Documentation/perf.data-file-format.txt`` and by
``tools/perf/util/header.c`` of the Linux sources.
"""
