"""What a fuzz campaign tries: for each kind of input, a command line over mutated files.

The seeds come from the builders of the tests, so that every format is one that is read. A case
changes bytes of a seed, or replaces values in its JSON and columns, and hands it to one of the
commands that read it.
"""

from __future__ import annotations

import atexit
import base64
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from functools import cache
from importlib.util import MAGIC_NUMBER, find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from builders import perfdata as build
from builders.eh_frame import frame_sections
from builders.elf import Symbol, code, elf_file
from builders.jitdump import DumpBuilder
from builders.perfdata_features import feature_string
from fuzz.changes import changed, changed_json
from fuzz.test_foreign_fuzz import READERS
from fuzz.test_perfdata_any_bytes import VALID
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.archived.archive_format import pack, unpack
from prospect.perfdata.format import HEADER_HOSTNAME, HEADER_PROSPECT, HEADER_PROSPECT_ARCHIVE
from prospect.perfdata.reader import open_recording
from prospect.render.registry import FORMATS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

_PROSPECT = (sys.executable, "-m", "prospect")
FILE, OTHER, IMAGE = "perf.data", "perf.data.old", "image"
PROGRAM, JITTED, KERNEL_TEXT = 0x400000, 0x7F0000000000, 0xFFFFFFFF81000000
PID, CLOCK_ID = 11, 7
_PROGRAM = b"""
static int twice(int n) { return n * 2; }
int work(int n) { int sum = 0; for (int i = 0; i < n; i++) sum += twice(i) / 3; return sum; }
int main(int argc, char **argv) { (void)argv; return work(argc * 100); }
"""


class Target(NamedTuple):
    """A kind of input: `make` writes the files of a case and returns the words for ``prospect``."""

    name: str
    make: Callable[[random.Random, Path], list[str]]


def all_targets() -> list[Target]:
    """Return every target; what costs a compiler or the kernel is made once, and only if there."""
    return [
        Target("sections", _sections),
        Target("recording", _recording),
        Target("extras", _extras),
        Target("archive", _archive),
        Target("image", _image),
        Target("map file", _map_file),
        Target("jitdump", _jitdump),
        Target("diff", _diff),
        Target("foreign", _foreign),
        Target("target", _target),
        *([Target("store", _store), Target("fleet", _fleet)] if find_spec("duckdb") else []),
    ]


def _reading(draw: random.Random, name: str = FILE) -> list[str]:
    """Return one of the ways to read a recording."""
    common = ["-V", draw.choice("234k"), "-m", "0", "-k", "0", "--debuginfod", "0", "--no-cache"]
    report = ["report", *common]
    words = draw.choice(
        (
            [*report, "--format", draw.choice(tuple(FORMATS))],
            [*report, "--lines", "--format", draw.choice(("text", "json"))],
            [*report, "--inline", "--format", draw.choice(("html", "folded"))],
            [*report, "-ee", "--format", draw.choice(("text", "json", "html"))],
            [*report, "--calls", "totals,callees,callers,graph"],
            ["calls", "--debuginfod", "0", "--no-cache"],
            ["annotate", "--debuginfod", "0", "--no-cache", "-n", "3"],
            ["annotate", "--debuginfod", "0", "--no-cache", "--source"],
            ["archive", "--debuginfod", "0", "--no-cache", "-o", "archived"],
        )
    )
    return [*words, name]


def _sections(draw: random.Random, directory: Path) -> list[str]:
    """Any byte of a perf.data file or stream, of either byte order, compressed or not."""
    (directory / FILE).write_bytes(changed(draw.choice(VALID), draw))
    return _reading(draw)


def _recording(draw: random.Random, directory: Path) -> list[str]:
    """Any byte of a recording whose samples are placed, unwound and named."""
    (directory / FILE).write_bytes(changed(draw.choice((_whole(), _live() or _whole())), draw))
    return _reading(draw)


def _extras(draw: random.Random, directory: Path) -> list[str]:
    """Any value of what the recorder says of the run."""
    facts = draw.choice((EXTRAS, _live_facts() or EXTRAS))
    for _ in range(draw.choice((1, 1, 3))):
        facts = changed_json(facts, draw)
    (directory / FILE).write_bytes(_file(facts))
    return _reading(draw)


def _archive(draw: random.Random, directory: Path) -> list[str]:
    """Any byte, fact or column of an archive."""
    content = unpack(_archived())
    facts, columns = content.facts, dict(content._columns)
    match draw.randrange(3):
        case 0:
            facts = changed_json(facts, draw)
        case 1:
            name = draw.choice(sorted(columns))
            columns[name] = _changed_column(columns[name], draw)
    section = pack(facts if isinstance(facts, dict) else {}, columns)
    if not draw.randrange(3):
        section = _changed_frame(section, draw)
    (directory / FILE).write_bytes(_file(EXTRAS, {HEADER_PROSPECT_ARCHIVE: section}))
    return _reading(draw)


def _changed_column(column: Any, draw: random.Random) -> Any:
    if not len(column):
        return column
    column = column.copy()
    limits = np.iinfo(column.dtype)
    for _ in range(draw.choice((1, 1, 5))):
        value = draw.choice((0, 1, -1, 1 << 31, int(limits.max), draw.getrandbits(64)))
        column[draw.randrange(len(column))] = max(int(limits.min), min(value, int(limits.max)))
    return column[: draw.randrange(len(column))] if not draw.randrange(4) else column


def _changed_frame(section: bytes, draw: random.Random) -> bytes:
    """Change what the Zstandard frame holds, whose list of columns is JSON."""
    import zstandard  # noqa: PLC0415 - here alone

    head = 24
    inside = zstandard.ZstdDecompressor().decompress(section[head:])
    (size,) = struct.unpack_from("<Q", inside)
    document = json.loads(inside[8 : 8 + size])
    text = json.dumps(changed_json(document, draw)).encode()
    inside = struct.pack("<Q", len(text)) + text + inside[8 + size :]
    if draw.randrange(2):
        inside = changed(inside, draw)
    return section[:16] + struct.pack("<Q", len(inside)) + zstandard.compress(inside)


def _image(draw: random.Random, directory: Path) -> list[str]:
    """Any byte of the ELF file that the samples are in."""
    (directory / IMAGE).write_bytes(changed(draw.choice((_program(), _small_program())), draw))
    (directory / FILE).write_bytes(_file(EXTRAS, image=directory / IMAGE))
    return _reading(draw)


def _map_file(draw: random.Random, directory: Path) -> list[str]:
    """Any byte of a map file."""
    text = b"".join(
        b"%x %x %s\n" % (JITTED + draw.randrange(4096), draw.randrange(1, 512), name)
        for name in draw.choices((b"a b", b"Object.method", b"LazyCompile:*x /a.js:1", b""), k=40)
    )
    (directory / FILE).write_bytes(_file(EXTRAS | _copy("map", changed(text, draw))))
    return _reading(draw)


def _jitdump(draw: random.Random, directory: Path) -> list[str]:
    """Any byte of a jitdump file."""
    dump = DumpBuilder(pid=PID, order=draw.choice("<<<>"))
    for at in range(0, 2048, 256):
        dump.lines(JITTED + at, [(JITTED + at, 3, b"/a.js"), (JITTED + at + 8, 4, b"\xff")])
        dump.load(50 + at, JITTED + at, b"\x90" * 200, b"method%d" % at)
    dump.move(140, 1, JITTED + 256, JITTED + 1024, 200)
    (directory / FILE).write_bytes(_file(EXTRAS | _copy("dump", changed(dump.content, draw))))
    return _reading(draw)


def _diff(draw: random.Random, directory: Path) -> list[str]:
    """A comparison of which one side is any of the others."""
    make = draw.choice((_sections, _recording, _extras, _archive))
    make(draw, directory)
    (directory / OTHER).write_bytes(_whole())
    sides = draw.sample((FILE, OTHER), 2)
    return ["diff", "--debuginfod", "0", "--no-cache", "-V", draw.choice("234k"), *sides]


def _foreign(draw: random.Random, directory: Path) -> list[str]:
    """Any byte of another tool's profile."""
    _, data = READERS[draw.choice(sorted(READERS))]
    (directory / FILE).write_bytes(changed(data, draw))
    (directory / IMAGE).write_bytes(_program())
    words = ["report", "--program", IMAGE, "-V", "4", "-m", "0", "-k", "0"]
    return [*words, "--format", draw.choice(tuple(FORMATS)), FILE]


def _target(draw: random.Random, directory: Path) -> list[str]:
    """Any byte that a target sends while it records, and as its files."""
    answer: Any = {
        "pid": 1,
        "result": {
            "exit_status": 0,
            "interrupted_by": 0,
            "limits": ["Something was not recorded."],
            "counters": {"bytes": 1},
            "cut": "",
        },
    }
    hello: Any = {"python": [3, 11, 7], "magic": MAGIC_NUMBER.hex()}
    if not draw.randrange(3):
        answer = changed_json(answer, draw)
    if not draw.randrange(8):
        hello = changed_json(hello, draw)
    recording = changed(_whole(), draw) if draw.randrange(2) else _whole()
    frames = _frame(b"D", bytes(8) + recording) + _frame(b"A", json.dumps(answer).encode())
    image = changed(_program(), draw) if draw.randrange(2) else _program()
    reply = _frame(b"S", bytes(8) + image) + _frame(b"E", b"")
    parts = [frames, reply if draw.randrange(4) else _frame(b"N", b"")]
    if not draw.randrange(3):
        at = draw.randrange(2)
        parts[at] = changed(parts[at], draw)
    sent = [json.dumps(hello).encode() + b"\n", *parts]
    (directory / "sent").write_bytes(repr((sent, draw.choice((0, 0, 0, 1)))).encode())
    (directory / "ssh").write_text(f"#!{sys.executable} -IS\n{_SSH}")
    (directory / "ssh").chmod(0o700)
    os.environ["PROSPECT_SSH"] = "./ssh"
    return ["record", "--target", "there", "-o", "out", "work"]


def _frame(letter: bytes, content: bytes) -> bytes:
    return struct.pack("<cI", letter, len(content)) + content


# Plays ssh and a target: sends the bytes in a case's file, and the file that is wanted.
_SSH = """
import ast, os, select, sys, time, zlib
if "join(" in sys.argv[-1]:
    time.sleep(0.05)
    sys.exit(0)
(hello, frames, reply), is_plain = ast.literal_eval(open("sent").read())
packer = zlib.compressobj(1)
def take(size):
    data = b""
    while len(data) < size:
        more = os.read(0, size - len(data))
        if not more:
            sys.exit(0)
        data += more
    return data
def line():
    data = b""
    while not data.endswith(b"\\n"):
        data += take(1)
    return data
def send(data):
    data = data if is_plain else packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)
    while data:
        data = data[os.write(1, data):]
try:
    take(int(line()))
    os.write(1, hello)
    for _ in range(2):
        take(int(line()))
    send(frames)
    while select.select([0], [], [], 0.5)[0]:
        if b'"file"' in line():
            send(reply)
except (OSError, ValueError):
    pass
"""


def _store(draw: random.Random, directory: Path) -> list[str]:
    """Any byte of a file of a store, and any value of its marker."""
    shutil.copytree(_stored(), directory / "s", dirs_exist_ok=True)
    return [*_harmed(draw, directory / "s"), "--store", "s"]


def _fleet(draw: random.Random, directory: Path) -> list[str]:
    """The same in the store of one host of two."""
    for host in ("evil", "good"):
        shutil.copytree(_stored(), directory / "f" / f"host={host}")
    (directory / "f").chmod(0o700)
    words = _harmed(draw, directory / "f" / "host=evil")
    question = ["fleet", draw.choice(("top", "outliers", "deploys", "coverage"))]
    return [*(words if words[0] == "report" else question), "--store", "f"]


def _harmed(draw: random.Random, store: Path) -> list[str]:
    """Change files of a store; return what reads it."""
    files = sorted(path for path in store.rglob("*") if path.is_file())
    for path in draw.sample(files, draw.choice((1, 1, 2))):
        content = path.read_bytes()
        if path.suffix == ".json" and draw.randrange(2):
            content = json.dumps(changed_json(json.loads(content), draw)).encode()
        else:
            content = changed(content, draw)
        path.write_bytes(draw.choice((content, content, content, b"", content[:100])))
    return draw.choice(
        (
            ["report", "--format", draw.choice(("text", "json", "csv", "folded"))],
            ["calls"],
            ["sql", draw.choice(("FROM hits", "FROM frames", "FROM coverage", "FROM hosts"))],
            ["store", draw.choice(("check", "list", "compact"))],
            ["store", "export", "exported"],
        )
    )


@cache
def _stored() -> Path:
    """Return a store of three windows, with stacks."""
    from builders.stored import fill, window_at  # noqa: PLC0415 - needs DuckDB

    made = Path(tempfile.mkdtemp(prefix="prospect-fuzz-store-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    fill(made / "s", [window_at(minute) for minute in range(3)])
    return made / "s"


_SAMPLE_TYPE = build.USUAL | build.CALLCHAIN | build.REGS_USER | build.STACK_USER
EXTRAS: dict[str, Any] = {
    "command": ["work", "1"],
    "command_pid": PID,
    "recorder_pids": [10],
    "interval_ns": [100, 4000],
    "started_at": 1_700_000_000.0,
    "processes": {"10": [1, 10, 9, 0], str(PID): [10, PID, 9, 0]},
    "lost_by_cpu": {"1": 5},
    "limits": ["Something was not recorded."],
    "counters": {"bytes": 1, "wakeups": 2},
    "exit_status": 0,
    "rusage": {"user_s": 1.0, "system_s": 0.5, "max_rss_kib": 100},
    "recorder_rusage": {"user_s": 0.1, "system_s": 0.1, "max_rss_kib": 100},
    "syscalls": [[PID, 1, 5, 1000, 10, 400]],
}


def _copy(kind: str, content: bytes) -> dict[str, Any]:
    packed = base64.b64encode(zlib.compress(content)).decode()
    return {"jit_files": [{"pid": PID, "kind": kind, "zlib": packed}]}


def _file(facts: Any, more: dict[int, bytes] | None = None, image: Path | None = None) -> bytes:
    """Return a recording of a program with JIT code, waits and callers, and these facts.

    With an `image` that is its program: made before the recording was.
    """
    if image is not None:
        facts = facts | {"started_at": time.time() + 1}
    return file_of(clock_records(image), facts, more)


def file_of(records: list[bytes], facts: Any, more: dict[int, bytes] | None = None) -> bytes:
    """Return a recording of this machine with one clock, and these records and facts."""
    attr = EventAttr(
        sample_type=_SAMPLE_TYPE,
        flags=abi.FLAG_SAMPLE_ID_ALL,
        sample_period=10_000_000,
        sample_regs_user=0xFF01FF,
    )
    text = json.dumps(facts).encode()
    features = {
        HEADER_HOSTNAME: feature_string(os.uname().nodename),
        HEADER_PROSPECT: b"PROSPECT" + struct.pack("<II", 1, len(text)) + text,
    }
    event = EventDescription(attr, (CLOCK_ID,), "cpu-clock")
    return build.FileBuilder([event], records, features | (more or {})).file()


def clock_records(image: Path | None = None) -> list[bytes]:
    """Return records of a program with JIT code, waits and callers; an `image` is its file."""
    make = build.RecordBuilder(_SAMPLE_TYPE)
    tail = {"id": CLOCK_ID, "cpu": 1}
    names = "[kernel.kallsyms]_text", str(image or "/none/image")
    inode, device = 0, (0, 0)
    if image is not None:
        status = image.stat()
        inode, device = status.st_ino, (os.major(status.st_dev), os.minor(status.st_dev))
    records = [
        make.mmap(-1, 0, KERNEL_TEXT, 1 << 24, names[0], pgoff=KERNEL_TEXT, misc=build.MISC_KERNEL),
        make.comm(10, 10, "shell"),
        make.fork(PID, 10, time=100, **tail),
        make.comm(PID, PID, "work", is_exec=True, time=120, **tail),
        make.mmap2(
            PID, PID, PROGRAM, 0x8000, names[1], inode=inode, device=device, time=121, **tail
        ),
        make.mmap2(PID, PID, JITTED, 0x4000, "//anon", time=122, **tail),
        make.mmap2(PID, PID, JITTED + 0x10000, 0x1000, f"/tmp/jit-{PID}.dump", time=123, **tail),
        make.switch(time=140, pid=PID, tid=PID, **tail),
    ]
    for turn in range(60):
        ip = (PROGRAM + 0x1000 + 16 * turn, JITTED + 40 * turn, KERNEL_TEXT + 99 * turn)[turn % 3]
        chain = [2**64 - 512, ip, PROGRAM + 0x1100, JITTED + turn, PROGRAM + 0x1000]
        registers = [0x7FFC00000000 + word for word in range(17)]
        registers[8] = ip
        records.append(
            make.sample(
                ip=ip,
                pid=PID,
                tid=PID,
                time=200 + 50 * turn,
                period=10_000_000,
                chain=chain[: turn % 6],
                regs_user=registers if turn % 2 else None,
                stack_user=struct.pack("<Q", PROGRAM + 0x1010) * 32 if turn % 2 else None,
                misc=build.MISC_KERNEL if turn % 3 == 2 else build.MISC_USER,
                **tail,
            )
        )
    return [
        *records,
        make.lost(CLOCK_ID, 3, time=3900, **tail),
        make.exit(PID, 10, time=4000, **tail),
    ]


@cache
def _whole() -> bytes:
    return _file(EXTRAS)


@cache
def _archived() -> bytes:
    """Return the section of an archive of a recording of the program."""
    with tempfile.TemporaryDirectory() as made:
        image, file, archive = (Path(made) / name for name in (IMAGE, FILE, "archive"))
        image.write_bytes(_program())
        file.write_bytes(_file(EXTRAS, image=image))
        words = ["archive", "--no-cache", "--debuginfod", "0", "-o", str(archive), str(file)]
        subprocess.run([*_PROSPECT, *words], check=True)
        content = archive.read_bytes()
    return content[content.index(b"PRSPARCH") :]


@cache
def _program() -> bytes:
    """Return an ELF file with debug information, where there is a compiler."""
    compiler = shutil.which("gcc")
    if not compiler:
        return _small_program()
    with tempfile.TemporaryDirectory() as made:
        words = [compiler, "-g", "-O1", "-xc", "-", "-o", "program"]
        subprocess.run(words, input=_PROGRAM, cwd=made, check=True)
        return (Path(made) / "program").read_bytes()


@cache
def _small_program() -> bytes:
    """Return an ELF file with symbols and call-frame information, and little else."""
    symbols = [Symbol("work", 0x1000, 64), Symbol("main", 0x1040, 64)]
    sections = [code(), *frame_sections([(0x1000, 64), (0x1040, 64)])]
    return elf_file(sections=sections, symbols=symbols, build_id=bytes(20))


@cache
def _live() -> bytes:
    """Return a recording of this machine, b"" where the kernel lets none be made."""
    with tempfile.TemporaryDirectory() as made:
        file = Path(made) / FILE
        words = ["record", "--call-graph", "dwarf", "--off-cpu", "-o", str(file)]
        done = subprocess.run([*_PROSPECT, *words, "sleep", "0.05"], check=False)
        return file.read_bytes() if done.returncode == 0 else b""


@cache
def _live_facts() -> dict[str, Any]:
    if not _live():
        return {}
    with tempfile.NamedTemporaryFile() as file:
        file.write(_live())
        file.flush()
        with open_recording(file.name) as recording:
            for _ in recording.blocks():
                pass
            return dict(recording.info.extras)
