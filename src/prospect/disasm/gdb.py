"""Code → instructions, by GDB: for machines that the libraries do not know, and for comparison.

As in Prospect 0.9 (Tsariounov, OLS 2002), the largest jobs come first, and `-g` sets how many GDB
processes may be open at once. Each gets commands through the machine interface. It runs no shell,
reads no start-up file and no file but the one made here, and asks no server. It is killed if it
does not answer in time.

Its answer is a result record of ``-data-disassemble``. Source: the GDB manual, "GDB/MI Output
Syntax" and "GDB/MI Data Manipulation". The file that GDB reads has neither symbols nor lines, so
the record is a flat list of the same few strings, which one regular expression reads.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from prospect.disasm.code_image import apart, code_image
from prospect.elf import elf_layout
from prospect.light import Descriptor
from prospect.options import DisassemblerOptions
from prospect.profile.optional_tables import (
    FLOW_BRANCH,
    FLOW_CALL,
    FLOW_JUMP,
    FLOW_NEXT,
    FLOW_RETURN,
    FLOW_UNKNOWN,
    NO_TARGET,
)
from prospect.records import Record, field

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO

    from prospect.disasm.code_image import Piece
    from prospect.options import Syntax

ANSWER_S = 20.0

NO_GDB = "gdb is not installed"
_DEAD = "gdb ended without an answer"
_SLOW = "gdb did not answer in time"
_UNCLEAR = "gdb's answer cannot be read"
_OTHER_MACHINE = "gdb does not know this machine either"
# First the one that knows all machines.
_PROGRAMS = ("gdb-multiarch", "gdb")
_OPTIONS = ("-nx", "-nh", "-q", "--interpreter=mi2")
_BEFORE_FILE = (
    "set auto-load off",
    "set auto-load safe-path /nonexistent",
    "set debuginfod enabled off",
    "set startup-with-shell off",
    "set debug-file-directory /nonexistent",
    "set sysroot /nonexistent",
    "set index-cache enabled off",
    "set style enabled off",
    "set width 0",
)
_ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath, "HOME": "/nonexistent"}
# A row of the answer has about 100 characters, for at least one byte of code.
_ANSWER_BYTES_A_BYTE = 400
_LEAST_ANSWER_BYTES = 1 << 20
_MOST_SECTIONS = 10_000
# The prefix of output for a person.
_CONSOLE = b"~"
_READ_BYTES = 1 << 16
Row = tuple[int, int, str, int, int]

_STRING = rb'"((?:[^"\\]|\\.)*)"'
_INSTRUCTION = re.compile(
    rb'address="0x([0-9a-f]+)"(?:,[a-z-]+=' + _STRING + rb")*?"
    rb',opcodes="([0-9a-f ]*)",inst=' + _STRING
)
_MESSAGE = re.compile(rb"msg=" + _STRING)
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_NAMED = {b"t": b" ", b"n": b" ", b"r": b" "}
# For machines that no library here knows: the names that most of them share.
_FLOWS = (
    (re.compile(r"(rep[zn]* )?ret\w*\b|blr$|rts\b|jr\s+\$?(ra|r1|lr)$|br\s+%r14$"), FLOW_RETURN),
    (re.compile(r"(call\w*|bl|jal|jalr|brasl|bras|basr|bctrl|bsr)(?![\w.+-])"), FLOW_CALL),
    (re.compile(r"(jmp\w*|j|jg|b|br|jr|bctr|bra)(?![\w.+-])"), FLOW_JUMP),
    (re.compile(r"[bj][\w.+-]*\s.*\b0x[0-9a-f]+$"), FLOW_BRANCH),
)
_LAST_NUMBER = re.compile(r"(?:^|[\s,])0x([0-9a-f]+)$")


def gdb_path() -> str | None:
    """Return GDB's path, None if it is not installed."""
    return next(filter(None, map(shutil.which, _PROGRAMS)), None)


def disassemble_by_gdb(
    groups: Sequence[Sequence[Piece]],
    syntax: Syntax = DisassemblerOptions.syntax,
    processes: int = DisassemblerOptions.gdb_processes,
    answer_s: float = ANSWER_S,
) -> list[list[list[Row] | str]]:
    """Decode code.

    Args:
        groups: pieces of the same object, which one GDB gets if they do not overlap.
        syntax: for x86.
        processes: how many GDB processes may be open at once.
        answer_s: how long each may take for one answer.

    Returns:
        The rows of each piece of each group, or the reason that there are none.
    """
    answers: list[list[list[Row] | str]] = [[NO_GDB] * len(pieces) for pieces in groups]
    path = gdb_path()
    if path is None:
        return answers
    work = [
        (group, [rows[at] for at in members])
        for group, pieces in enumerate(groups)
        for rows in _by_target(pieces)
        for members in apart([pieces[row] for row in rows], _MOST_SECTIONS)
    ]
    work.sort(key=lambda job: -len(job[1]))
    pool = _Pool(path, syntax, answer_s)
    with ThreadPoolExecutor(max(processes, 1)) as threads:
        try:
            asked = [
                threads.submit(pool.answers, [groups[group][row] for row in rows])
                for group, rows in work
            ]
            for (group, rows), future in zip(work, asked, strict=True):
                for row, answer in zip(rows, future.result(), strict=True):
                    answers[group][row] = answer
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            pool.end()
            raise
    return answers


def _by_target(pieces: Sequence[Piece]) -> list[list[int]]:
    rows: dict[object, list[int]] = {}
    for row, piece in enumerate(pieces):
        rows.setdefault(piece.target, []).append(row)
    return list(rows.values())


class _Pool(Record, frozen=False):
    """The open GDB processes, and how to ask them."""

    path: str
    syntax: Syntax
    answer_s: float
    open: set[_Gdb] = field(default_factory=set)

    def answers(self, pieces: Sequence[Piece]) -> list[list[Row] | str]:
        """Open a GDB on pieces of code, ask it for each, and end it."""
        try:
            gdb = _Gdb(self.path, code_image(pieces), self.answer_s)
        except (OSError, ValueError) as error:
            return [f"gdb cannot be started: {error}"] * len(pieces)
        self.open.add(gdb)
        try:
            if pieces[0].target.machine in (elf_layout.EM_386, elf_layout.EM_X86_64):
                gdb.ask(f"-gdb-set disassembly-flavor {self.syntax}", _LEAST_ANSWER_BYTES)
            elif gdb.takes_for_x86():
                return [_OTHER_MACHINE] * len(pieces)
            return [_piece_rows(gdb, piece) for piece in pieces]
        finally:
            self.open.discard(gdb)
            gdb.end()

    def end(self) -> None:
        """Kill all of them."""
        for gdb in list(self.open):
            gdb.end()


def _piece_rows(gdb: _Gdb, piece: Piece) -> list[Row] | str:
    if not piece.content:
        return []
    answer = gdb.ask(
        f"-data-disassemble -s 0x{piece.address:x} -e 0x{piece.end:x} -- 2",
        _LEAST_ANSWER_BYTES + _ANSWER_BYTES_A_BYTE * len(piece.content),
    )
    if isinstance(answer, str):
        return answer
    if not answer.startswith(b"done"):
        return f"gdb: {error_of(answer)}" if error_of(answer) else _UNCLEAR
    rows = rows_of(answer, piece.content, piece.address)
    return _UNCLEAR if rows is None else rows


class _Gdb:
    """One GDB process with one file; after a failure all answers are that failure."""

    def __init__(self, path: str, image: bytes, answer_s: float) -> None:
        self._answer_s = answer_s
        self._number = 0
        self._waiting = bytearray()
        self._failure = ""
        self._said = b""
        # Nobody can replace a file without a name.
        with Descriptor(os.memfd_create("prospect-code", os.MFD_CLOEXEC)) as descriptor:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(image)
            before = [word for one in _BEFORE_FILE for word in ("-iex", one)]
            self._process = subprocess.Popen(
                [path, *_OPTIONS, *before, f"/proc/self/fd/{descriptor}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=(descriptor,),
                env=_ENVIRONMENT,
                cwd="/",
                start_new_session=True,
                bufsize=0,
            )

    def ask(self, command: str, most_bytes: int) -> bytes | str:
        """Send a command; return its result record after the ``^``, or why there is none."""
        if self._failure:
            return self._failure
        self._number += 1
        try:
            _pipe(self._process.stdin).write(f"{self._number}{command}\n".encode())
            answer = self._answer(b"%d^" % self._number, most_bytes)
        except OSError:
            answer = _DEAD
        if isinstance(answer, str):
            self._failure = answer
            self._process.kill()
        return answer

    def takes_for_x86(self) -> bool:
        """Return whether it takes its file for x86 code, as it does for machines unknown to it."""
        self.ask('-interpreter-exec console "show architecture"', _LEAST_ANSWER_BYTES)
        return b"i386" in self._said

    def _answer(self, start: bytes, most_bytes: int) -> bytes | str:
        deadline = time.monotonic() + self._answer_s
        output = _pipe(self._process.stdout).fileno()
        read = searched = 0
        while True:
            while (line_end := self._waiting.find(b"\n", searched)) >= 0:
                line = bytes(self._waiting[:line_end])
                del self._waiting[: line_end + 1]
                searched = 0
                if line.startswith(_CONSOLE):
                    self._said = line
                if line.startswith(start):
                    return line[len(start) :]
            searched = len(self._waiting)
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([output], [], [], left_s)[0]:
                return _SLOW
            chunk = os.read(output, _READ_BYTES)
            read += len(chunk)
            if not chunk:
                return _DEAD
            if read > most_bytes:
                return _UNCLEAR
            self._waiting += chunk

    def end(self) -> None:
        """Kill the process and wait for it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                _pipe(pipe).close()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # noqa: S101 - every process here has both
    return pipe


def error_of(record: bytes) -> str:
    """Return the message of an error record, "" if it has none."""
    found = _MESSAGE.search(record)
    return _unescaped(found[1]) if found else ""


def rows_of(record: bytes, content: bytes, address: int) -> list[Row] | None:
    """Read the instructions of one piece of code.

    Args:
        record: GDB's answer.
        content: the bytes that it was asked for.
        address: of the first byte.

    Returns:
        Rows that cover each byte once; None if the answer does not match the code.
    """
    end = address + len(content)
    rows: list[Row] = []
    expected = address
    for found in _INSTRUCTION.finditer(record):
        at, size = int(found[1], 16), len(found[3].replace(b" ", b"")) // 2
        if at != expected or not 0 < size < 256 or at >= end:
            return None
        if at + size > end:
            break
        text = _unescaped(found[4]).strip()
        flow, target = _flow(text)
        rows.append((at, size, text, flow, target))
        expected = at + size
    if not rows and not record.count(b"asm_insns"):
        return None
    rows.extend(
        (left, 1, f".byte 0x{content[left - address]:02x}", FLOW_UNKNOWN, NO_TARGET)
        for left in range(expected, end)
    )
    return rows


def _flow(text: str) -> tuple[int, int]:
    if text.startswith(("(bad)", ".", "<")):
        return FLOW_UNKNOWN, NO_TARGET
    flow = next((flow for pattern, flow in _FLOWS if pattern.match(text)), FLOW_NEXT)
    last = _LAST_NUMBER.search(text)
    leads = flow in (FLOW_CALL, FLOW_JUMP, FLOW_BRANCH) and last is not None
    return flow, int(last[1], 16) if leads and last else NO_TARGET


def _unescaped(text: bytes) -> str:
    def one(found: re.Match[bytes]) -> bytes:
        what = found[1]
        return bytes([int(what, 8) & 0xFF]) if len(what) == 3 else _NAMED.get(what, what)

    return _ESCAPE.sub(one, text).decode(errors="replace")
