"""The first bytes of a file → its reader, or what to do with a file that Prospect cannot read.

Only the content counts, not the file's name: each format's description says how its files begin.
Gzipped files are unpacked first, to a bounded size.
"""

from __future__ import annotations

import re
import struct
import zlib
from typing import Literal

from prospect.columns.protobuf_fields import begins_as_message
from prospect.errors import RecordingError
from prospect.foreign.foreign_limits import LARGEST_UNPACKED_BYTES, MOST_MEMBERS
from prospect.foreign.gmon_profile import is_gmon
from prospect.foreign.perf_script_profile import is_perf_script

_READ = "Prospect reads perf.data, perf script's text, folded stacks, pprof and gmon.out"
_SPEEDSCOPE = (
    "a speedscope file, which is for https://www.speedscope.app only; give the file that it was"
    " made from"
)
_FIREFOX = (
    "a profile of the Firefox Profiler, which is for https://profiler.firefox.com only; give the"
    " recording that it was made from"
)
_CHROME = (
    "a trace of Chrome's format, which is for https://ui.perfetto.dev or chrome://tracing only"
)
_CPUPROFILE = "a CPU profile of V8 (Chrome, Node.js), which is for Chrome's developer tools only"
_CALLGRIND = (
    "a callgrind profile, which is for kcachegrind or callgrind_annotate; its costs are counted"
    " instructions, not samples"
)
_GPERFTOOLS = (
    "a CPU profile of gperftools, without names: turn it into pprof's format with"
    " pprof -proto PROGRAM FILE > profile.pb.gz"
)
_GPERFTOOLS_HEAP = (
    "a heap profile of gperftools: turn it into pprof's format with"
    " pprof -proto PROGRAM FILE > profile.pb.gz"
)
_PPROF_TEXT = "the text of pprof -raw, which no tool reads; give the profile that it was made from"
_PPROF_OLD = (
    "a profile in one of pprof's older formats: turn it into the present one with"
    " pprof -proto FILE > profile.pb.gz"
)
_LLVM_SAMPLES = (
    "a sample profile of LLVM (AutoFDO), which is for compilers; give the recording that it was"
    " made from"
)
_LLVM_COUNTS = "a profile of LLVM's counters, which is for llvm-profdata and llvm-cov"
# First bytes of files, and what these files are.
_MAGICS = (
    (b"\x7fELF", "a program or library, not a recording; to profile it: prospect PROGRAM"),
    (b"\x28\xb5\x2f\xfd", "compressed: unpack it with zstd -d first"),
    (b"\xfd7zXZ\0", "compressed: unpack it with xz -d first"),
    (b"\x81rforpl\xff", _LLVM_COUNTS),
    (b"\xfflprofr\x81", _LLVM_COUNTS),
    (b"\xfflprofi\x81", _LLVM_COUNTS),
    (b"BZh", "compressed: unpack it with bzip2 -d first"),
    (b"\x17\x08\x44tracing", "a recording of trace-cmd (ftrace): read it with trace-cmd report"),
    (b"heap profile:", _GPERFTOOLS_HEAP),
    (b"--- symbol", _GPERFTOOLS),
    (b"--- contention", _PPROF_OLD),
    (b"--- mutex:", _PPROF_OLD),
    (b"--- heapz ", _PPROF_OLD),
    (b"--- threadz ", _PPROF_OLD),
    (b"--- Thread", _PPROF_OLD),
    (b"# callgrind format", _CALLGRIND),
    (b"<?xml", f"XML, and no profile that is read. {_READ}"),
    (b"<svg", "a picture (SVG); give the stacks that it was drawn from"),
    (b"<!DOCTYPE html", "a page (HTML); give the recording that it was made from"),
)
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*[\[{]")
# Words near the start of each JSON format's documents, the surest first.
_JSON_MARKS = (
    (rb"speedscope\.app/file-format-schema|\"exporter\"\s*:\s*\"speedscope", _SPEEDSCOPE),
    (
        rb"\"preprocessedProfileVersion\"|\"meta\"\s*:\s*\{[^}]{0,4096}\"(?:product|interval)\"",
        _FIREFOX,
    ),
    (rb"\"nodes\"\s*:\s*\[\s*\{[^\]]{0,512}\"callFrame\"", _CPUPROFILE),
    (rb"\"traceEvents\"|\"ph\"\s*:\s*\"[A-Za-z]\"", _CHROME),
)
_CALLGRIND_LINE = re.compile(rb"(?:creator|events|positions|fl|fn)\s*[:=]")
_CALLGRIND_HEAD = re.compile(rb"(?:version: ?\d|creator: |positions: ?(?:instr|line)|events: \S)")
# FUNCTION:TOTAL:HEAD, then a line within it: OFFSET: COUNT, a call or an inlined function.
# Source: ``llvm/ProfileData/SampleProfReader.h``, LLVM 18.
_LLVM_SAMPLES_HEAD = re.compile(
    rb"(?:#[^\n]*\n|[ \t\r]*\n)*[^\s:;][^\n;]{0,4096}:\d+:\d+\r?\n"
    rb"(?:[ \t]+(?:\d+(?:\.\d+)?:|!)|[^\s;]|$)"
)
# Source: google/pprof, ``profile/profile.go``, ``Profile.String``.
_PPROF_TEXT_HEAD = re.compile(rb"(?:Comment: [^\n]*\n)*PeriodType: \S* \S*\nPeriod: \d+\n")
_TEXT_HEADS = ((_PPROF_TEXT_HEAD, _PPROF_TEXT), (_LLVM_SAMPLES_HEAD, _LLVM_SAMPLES))
_GPERFTOOLS_WORDS = 5

Kind = Literal["", "folded", "gmon", "perf script", "pprof"]

_PERF_MAGICS = (b"PERFILE2", b"2ELIFREP", b"PERFFILE", b"ELIFFREP")
_COUNT = re.compile(rb"[0-9]+(?:\.[0-9]*)?")
_FOLDED_LINES = 1 << 10
_LAST_PPROF_FIELD = 15  # doc_url


def unread_format(head: bytes) -> str:
    """Return what a file without a reader is, "" if that is unknown."""
    for magic, words in _MAGICS:
        if head.startswith(magic):
            return words
    if _JSON.match(head):
        for mark, words in _JSON_MARKS:
            if re.search(mark, head):
                return words
        # Otherwise it may be a folded stack whose first frame is in brackets.
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[1:].lstrip()[:1] in (b'"', b"{", b"}", b"["):
            return f"JSON, and no profile that is read. {_READ}"
    if _CALLGRIND_HEAD.match(head) and _CALLGRIND_LINE.search(head, 1):
        return _CALLGRIND
    for pattern, words in _TEXT_HEADS:
        if pattern.match(head):
            return words
    return _GPERFTOOLS if _is_gperftools(head) else ""


def _is_gperftools(head: bytes) -> bool:
    """Return whether a file begins with the header of a CPU profile: 0, 3, 0, the period, 0.

    Java profiles have version 1. Source: ``docs/cpuprofile-fileformat.html`` of gperftools 2.10;
    pprof's ``profile/legacy_profile.go``.
    """
    for layout in ("<Q", ">Q", "<I", ">I"):
        words = struct.Struct(layout[0] + str(_GPERFTOOLS_WORDS) + layout[1])
        if len(head) >= words.size:
            zero, count, version, period, padding = words.unpack_from(head)
            if (zero, count, version >> 1, padding) == (0, 3, 0, 0) and period:
                return True
    return False


def is_recording(head: bytes) -> bool:
    """Return whether a file begins as perf.data of any version."""
    return head.startswith(_PERF_MAGICS)


def foreign_kind(head: bytes) -> Kind:
    """Return the reader for a file, or for the contents of a gzipped file; "" for recordings.

    `head` is the first 64 KiB, or all bytes of a shorter file.
    """
    if is_gzipped(head):
        head = unpacked_head(head)
    if is_recording(head) or not head.strip():
        return ""
    if is_gmon(memoryview(head)):
        return "gmon"
    if unread_format(head):
        return ""
    if b"\0" not in head:
        if is_perf_script(head):
            return "perf script"
        if _is_folded(head):
            return "folded"
    return "pprof" if begins_as_message(head, _LAST_PPROF_FIELD) else ""


def _is_folded(head: bytes) -> bool:
    """Return whether most lines other than comments are folded stacks."""
    if head.startswith(b"#!"):
        return False
    lines = head.split(b"\n", _FOLDED_LINES)
    if len(lines) > 1:
        lines.pop()  # which may be cut off
    stacks = [line for line in map(bytes.strip, lines) if line and not line.startswith(b"#")]
    # Split as the reader does. A pattern for a whole line would try each space as the last.
    words = [line.rsplit(None, 1) for line in stacks]
    folded = sum(len(each) == 2 and _COUNT.fullmatch(each[1]) is not None for each in words)
    return 2 * folded > len(stacks)


_MAGIC = b"\x1f\x8b"
_WINDOW = 16 + zlib.MAX_WBITS
_UNPACKED_BYTES = 1 << 24
_UNPACKED_EACH = 64
_PIECE_BYTES = 1 << 16  # zlib copies what follows the end of a member


def is_gzipped(head: bytes) -> bool:
    """Return whether a file begins with gzip's magic number."""
    return head.startswith(_MAGIC)


def unpacked_head(head: bytes) -> bytes:
    """Unpack a file's first bytes, to at most 64 times as many."""
    try:
        return zlib.decompressobj(_WINDOW).decompress(head, _UNPACKED_EACH * max(len(head), 1))
    except zlib.error:
        return b""


def unpacked(data: memoryview) -> bytes:
    """Unpack a whole file; concatenated gzip files are one.

    Raises:
        RecordingError: it is damaged, or unpacks to more than any profile.
    """
    most = min(_UNPACKED_BYTES + _UNPACKED_EACH * len(data), LARGEST_UNPACKED_BYTES)
    parts: list[bytes] = []
    room, at, members = most, 0, 0
    while at < len(data):
        members += 1
        unpacker = zlib.decompressobj(_WINDOW)
        while at < len(data) and not unpacker.eof:
            piece = data[at : at + _PIECE_BYTES]
            try:
                parts.append(unpacker.decompress(piece, max(room, 1)))
            except zlib.error as error:
                raise RecordingError(f"damaged gzip file: {error}") from error
            at += len(piece) - len(unpacker.unused_data)
            room -= len(parts[-1])
            if unpacker.unconsumed_tail or room < 0 or members > MOST_MEMBERS:
                raise RecordingError(
                    f"its {len(data)} bytes unpack to more than {most >> 20} MiB, or are of more"
                    f" than {MOST_MEMBERS} parts, which no profile is; if you trust it, unpack it"
                    " with gunzip first"
                )
        if not unpacker.eof:
            raise RecordingError("damaged gzip file: it ends too early")
    return b"".join(parts)
