"""Records of Python frames, as the walker writes them; see docs/recording.md."""

from __future__ import annotations

from builders import perfdata
from builders.perfdata import RecordBuilder
from prospect.abi import constants as abi
from prospect.abi import runtime_frames as wire
from prospect.abi.attr import EventAttr, EventDescription

FRAMES_TYPE = perfdata.IDENTIFIER | perfdata.TID | perfdata.TIME | perfdata.CPU | perfdata.RAW
SAMPLE_TYPE = FRAMES_TYPE & ~perfdata.RAW | perfdata.IP | perfdata.CALLCHAIN
_FLAGS = 1 << 18
CLOCK = EventDescription(EventAttr(sample_type=SAMPLE_TYPE, flags=_FLAGS), (7,), "cpu-clock")
FRAMES = EventDescription(
    EventAttr(config=abi.PERF_COUNT_SW_BPF_OUTPUT, sample_type=FRAMES_TYPE, flags=_FLAGS),
    (9,),
    wire.EVENT_NAME,
)
TEXT, LOOP = (0x400000, 0x500000), (0x410000, 0x420000)
SAMPLES = RecordBuilder(SAMPLE_TYPE)
_RAW = RecordBuilder(FRAMES_TYPE)


def raw(payload: bytes, *, pid: int = 5, tid: int = 5, **tail: int) -> bytes:
    """Return a sample of the event of Python frames."""
    return _RAW.sample(pid=pid, tid=tid, id=9, raw=payload, **tail)


def stack(*frames: tuple[int, int, int, int], status: int = 0, image: int = 1) -> bytes:
    """Return a STACK of frames (code, last, owner, signature), the innermost first."""
    head = wire.HEADER.pack(wire.MAGIC, wire.KIND_STACK, status, len(frames), 900, image, 0, 0)
    rows = (
        wire.FRAME.pack(code, last, owner | signature << wire.SIGNATURE_SHIFT)
        for code, last, owner, signature in frames
    )
    return head[: wire.STACK_BYTES] + b"".join(rows)


def blob(kind: int, code: int, payload: bytes, **facts: int) -> bytes:
    """Return a NAME, FILE, LINES or IMAGE; facts: status, signature, image, beginning, count."""
    head = wire.HEADER.pack(
        *(wire.MAGIC, kind, facts.get("status", 1), facts.get("count", len(payload))),
        *(facts.get("signature", 0), facts.get("image", 1), code, facts.get("beginning", 0)),
    )
    return head + payload


def image(minor: int, number: int = 1) -> bytes:
    """Return the IMAGE of CPython 3.`minor` with the code of `TEXT` and `LOOP`."""
    return blob(wire.KIND_IMAGE, 0, wire.IMAGE.pack(0x300 | minor, 0, *TEXT, *LOOP), image=number)


def names(code: int, name: str, file: str, lines: bytes, first: int, **facts: int) -> list[bytes]:
    """Return what tells of a code object of CPython 3.11 or later."""
    ascii_text = wire.IS_ASCII | 1
    return [
        blob(wire.KIND_NAME, code, name.encode(), status=ascii_text, beginning=first, **facts),
        blob(wire.KIND_FILE, code, file.encode(), status=ascii_text, beginning=first, **facts),
        blob(wire.KIND_LINES, code, lines, beginning=first, **facts),
    ]
