"""perf.data in and out: files, pipes, either byte order, whole or damaged.

A recording becomes RecordBlocks and a RecordingInfo. Records of a live kernel become a file for
every reader of perf.data. Source: ``tools/perf/Documentation/perf.data-file-format.txt`` and
``tools/perf/util/header.c`` of Linux.
"""
