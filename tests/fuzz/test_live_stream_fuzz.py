"""Any bytes that a target sends during a session give a profile, or one of our errors."""

from __future__ import annotations

import json
import os
import random
import struct
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from builders.examples import examples
from fuzz.cases import CLOCK_ID, EXTRAS, clock_records, file_of
from fuzz.changes import changed, changed_json
from prospect.errors import ProspectError
from prospect.live.session import LiveSession
from prospect.recording.opened_events import RecordOptions
from prospect.target import target_source
from prospect.target.serving import CHUNK, ENDED, INFO, MARK, RECORDS, WHOM
from prospect.target.target_source import source_on

if TYPE_CHECKING:
    from pathlib import Path

_MORE: dict[str, Any] = {
    "clocks": [{"period_ns": 10**7, "ids": [CLOCK_ID], "cpus": [1]}],
    "proc_stat": {"hz": 250, "start": {}, "end": {}},
    "hz": 250,
}
_TIMES = {"cpu": [10, 0, 5, 100, 0, 0, 0, 0], "cpu1": [10, 0, 5, 100, 0, 0, 0, 0]}


def _chunk(letter: bytes, content: bytes) -> bytes:
    return CHUNK.pack(letter, len(content)) + content


def _mark(time_ns: int, draw: random.Random) -> bytes:
    said = {"mark": [time_ns, 1e9 + time_ns / 1e9, _TIMES, {str(CLOCK_ID): 0}], "extras": _MORE}
    return _json(MARK, said, draw)


def _json(letter: bytes, said: Any, draw: random.Random) -> bytes:
    if not draw.randrange(6):
        said = changed_json(said, draw)
    return _chunk(letter, json.dumps(said).encode())


def _stream(draw: random.Random) -> list[bytes]:
    """Return what a sampler sends, part by part, of which one or another is changed."""
    facts = EXTRAS | _MORE
    info = file_of([], facts if draw.randrange(4) else changed_json(facts, draw))
    records = b"".join(clock_records())
    first = _chunk(INFO, info if draw.randrange(4) else changed(info, draw))
    if not draw.randrange(12):
        first += _json(WHOM, ["process 11 (work)", [11], [11]], draw)
    parts = [first + _mark(150, draw)]
    for turn in range(3):
        part = records if draw.randrange(2) else changed(records, draw)
        parts.append(_chunk(RECORDS, part) + _mark(4000 * (turn + 1), draw))
    parts.append(_chunk(ENDED, b"") if draw.randrange(2) else b"")
    return [part if not part or draw.randrange(12) else changed(part, draw) for part in parts]


class _Remote:
    """A target that sends a stream, and junk for each file that it is asked for."""

    def __init__(self, stream: list[bytes], draw: random.Random) -> None:
        self._stream, self._draw = stream, draw

    def follow(self, receiver: Any) -> dict[str, Any]:
        """Send a part as soon as the one before it was taken."""
        at = 0
        for part in self._stream:
            deadline = time.monotonic() + 0.2
            while receiver._marks and time.monotonic() < deadline:
                time.sleep(0.0005)
            receiver.write(struct.pack("<Q", at) + part)
            at += len(part)
        return {}

    def fetch_meanwhile(self, _wanted: object, descriptor: int) -> bool:
        os.write(descriptor, self._draw.randbytes(100))
        return True

    def order(self, _order: object) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


# Seeds that raised other errors than ours.
FOUND = (1044, 1151, 1545, 5079, 5084, 5240, 5243, 9274)


@pytest.mark.parametrize("seed", [*FOUND, *range(examples(16))])
def test_any_stream_of_a_target_is_a_profile_or_refused(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(f"live {seed}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(target_source, "Remote", lambda *_, **__: _Remote(_stream(draw), draw))
    monkeypatch.setattr(target_source, "SILENCE_S", 0.2)
    try:
        options = RecordOptions(call_graph="fp")
        with closing(LiveSession(options, source=source_on("there"))) as session:
            for _ in range(3):
                session.advance()
            session.save(str(tmp_path / "saved"))
    except ProspectError:
        pass
