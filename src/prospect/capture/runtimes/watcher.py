"""The process that attaches the walker, and registers runtimes as processes map them.

Loading the walker costs more than the rest of a short recording, so `first_runtime` first waits
until a runtime runs. The watcher is a child, so COMMAND starts without waiting for it. A child of
its own (`image_reader`) reads the mapped files, which other users may control.

Its work is bounded for each user, the owner of the process that mapped a file, so that no user's
processes use up the time of others. Refused mappings are counted, and looked at when the process
maps the file again.

Defined by: proc(5), /proc/pid/maps and map_files; perf_event_open(2).
"""

from __future__ import annotations

import errno
import math
import os
import select
import time
from contextlib import suppress

from prospect.abi import runtime_frames as wire
from prospect.capture.capture_limits import MOST_IMAGE_NUMBERS, READER_HELD_UP_S
from prospect.capture.kernel import bpf_objects
from prospect.capture.machine.mapping_records import drained
from prospect.capture.machine.runtime_processes import WORDS, may_be_runtime, process_key
from prospect.capture.runtimes import image_entry, walk_rooms
from prospect.capture.runtimes.first_runtime import Pace, goes_on, polled, runtime_mappings
from prospect.capture.runtimes.image_reader import ImageReader
from prospect.capture.runtimes.runtime import Unknown
from prospect.capture.runtimes.tracers import MOST_SHARE, WATCHED_S, Tracers
from prospect.capture.runtimes.users import Users, user_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from prospect.capture.kernel.rings import Ring
    from prospect.capture.machine.mapping_records import MappingRecord
    from prospect.capture.runtimes.attaching import Walker
    from prospect.capture.runtimes.runtime import Image, Placed
    from prospect.capture.runtimes.walk_state import WalkState
    from prospect.capture.v8.new_functions import NewFunctions

# A program's own file is mapped before the kernel's description of its memory is complete.
_AGAIN_S = 0.003
# Lost mappings are searched for in /proc: with at least so long a rest, and so many times the
# duration of the search.
_SEARCH_REST_S, _SEARCH_REST = 1.0, 50
_COUNTED_S = 10.0
_LONGEST_MS = 3_600_000
_TRACERS_S = 1.0


def serve(  # noqa: PLR0913 - what a child gets
    stop_fd: int,
    rings: Mapping[int, Ring],
    attach: Callable[[], Walker],
    state: WalkState,
    found: list[MappingRecord],
    *,
    beside_others: bool,
    share: float,
) -> None:
    """Serve until `stop_fd` is at its end.

    Args:
        stop_fd: a pipe's end.
        rings: by the descriptor of their event.
        attach: attaches the walker.
        state: gets the walker's state.
        found: mappings of runtimes so far.
        beside_others: whether the walker stays even if other tracers' programs cost samples.
        share: of all CPUs, for looks at new mappings.
    """
    tracers = _TracerWatch(state, endures=beside_others)
    with ImageReader(state.reads_by) as reader:
        try:
            # The reader starts while the kernel verifies the walker.
            reader.start()
            if tracers.are_too_much():
                state.fail(errno.EBUSY)
                return
            walker = attach()
        except OSError as error:
            state.fail(error.errno or 0)
            return
        except ValueError:
            state.fail(0)
            return
        watcher = _Watcher(walker, state, reader)
        for mapping in found:
            watcher.see(mapping)
        poll, pace = polled(stop_fd, rings), Pace(share)
        poll.register(walker.news, select.POLLIN)
        while goes_on(poll, stop_fd, min(watcher.wait_ms(), tracers.wait_ms()), pace):
            watcher.look(rings)
            watcher.look_again()
            watcher.name_functions()
            if tracers.have_grown() and walker.can_detach:
                walker.detach()
                state.detached()
                break
        watcher.count_refused()


class _TracerWatch:
    """Measures the cost of other tracers' programs from time to time."""

    def __init__(self, state: WalkState, *, endures: bool) -> None:
        self._state = state
        self._endures = endures
        self._tracers = Tracers()
        self._at = time.monotonic() + _TRACERS_S

    def are_too_much(self) -> bool:
        """Return whether they cost too much now; this takes a moment if there are any."""
        if self._endures or not self._tracers.begin():
            return False
        time.sleep(WATCHED_S)
        return self._tracers.share() > MOST_SHARE

    def have_grown(self) -> bool:
        """Return whether they cost too much, if it is time to look."""
        if time.monotonic() < self._at:
            return False
        share = 0.0
        self._at = time.monotonic() + _TRACERS_S
        try:
            if self._tracers.is_measuring:
                share = self._tracers.share()
            elif self._tracers.begin():
                self._at = time.monotonic() + WATCHED_S
        except OSError:
            self._at = math.inf  # their cost cannot be measured
        self._state.beside(share)
        return share > MOST_SHARE and not self._endures

    def wait_ms(self) -> int:
        """Return the time until the next look."""
        if self._at == math.inf:
            return _LONGEST_MS
        return max(0, int((self._at - time.monotonic()) * 1000)) + 1


class _Watcher:
    """Registers runtimes, and has names sent again."""

    def __init__(self, walker: Walker, state: WalkState, reader: ImageReader) -> None:
        self._walker = walker
        self._forget_at = time.monotonic() + wire.SENT_AGAIN_S
        self._state = state
        self._reader = reader
        self._users = Users()
        self._numbers: dict[bytes, int] = {}
        self._rooms: dict[int, int] = {}
        self._pids: dict[int, int] = {}
        self._met = 0
        self._count_at = time.monotonic() + _COUNTED_S
        self._again: list[tuple[float, MappingRecord, bytes]] = []
        self._functions: NewFunctions | None = None
        self._search_at, self._may_search_at = math.inf, 0.0

    def look(self, rings: Mapping[int, Ring]) -> None:
        """Look at new mappings, each file of a process once."""
        lost = self._state["lost"]
        found = list(drained(rings.values(), self._state, of_names_with=WORDS))
        for mapping in {(one.pid, one.file, one.offset): one for one in found}.values():
            self.see(mapping)
        if self._state["lost"] > lost:
            self._search_at = max(time.monotonic(), self._may_search_at)

    def see(self, mapping: MappingRecord) -> None:
        """Register a mapping with the walker, if it is of a runtime."""
        if may_be_runtime(mapping.path):
            key = self._register(mapping)
            if mapping.time_ns and key:
                self._again.append((time.monotonic() + _AGAIN_S, mapping, key))

    def look_again(self) -> None:
        """Look again at processes that were new, and at all processes if mappings were lost."""
        now = time.monotonic()
        if now >= self._forget_at:
            self._forget_at = now + wire.SENT_AGAIN_S
            with suppress(OSError):
                self._walker.forget_names()
        while self._again and self._again[0][0] <= now:
            _, mapping, key = self._again.pop(0)
            if process_key(mapping.pid) != key:
                self._register(mapping)
        if now >= self._search_at:
            self._search_at = math.inf
            for mapping in runtime_mappings():
                self.see(mapping)
            ended = time.monotonic()
            self._may_search_at = ended + max(_SEARCH_REST_S, _SEARCH_REST * (ended - now))
        if now >= self._count_at:
            self._count_at = now + _COUNTED_S
            self.count_refused()

    def count_refused(self) -> None:
        """Store the number of names that the walker had no room for."""
        with suppress(OSError):
            refused = walk_rooms.refused_names(self._walker.rooms, self._pids)
            users = walk_rooms.refused_names(self._walker.rooms, self._rooms.values())
            if self._functions:
                for image, count in self._functions.refused.items():
                    room = image % walk_rooms.IMAGES
                    refused[room] = refused.get(room, 0) + count
            most = max(refused, key=lambda room: refused[room], default=-1)
            total = sum(refused.values()) + sum(users.values())
            if total:
                self._state.refused(total, self._pids.get(most, 0) if refused.get(most) else 0)

    def name_functions(self) -> None:
        """Have functions named of which a walk sent news."""
        if self._functions:
            self._functions.look()

    def _read_functions(
        self, uid: int, *question: Any
    ) -> tuple[int, Sequence[bytes], Sequence[int]] | None:
        """Read functions of a process at the cost of its user; None if that has no time left."""
        if not self._users.may_use(uid):
            return None
        answer = self._reader.functions(*question)
        if answer is None:
            # Memory that holds a reader up costs other users' time, so this user pays for it.
            self._users.has_read(uid, READER_HELD_UP_S)
            self._state.count(held_up=1)
            return 1, (), ()
        looked_at, records, failed, used_s = answer
        self._users.has_read(uid, used_s)
        return looked_at, records, failed

    def wait_ms(self) -> int:
        """Return the time until there is something to do."""
        if self._functions and (soon_ms := self._functions.wait_ms()):
            return soon_ms
        again = [when for when, _, _ in self._again[:1]]
        due = min([self._forget_at, self._search_at, self._count_at, *again])
        return max(0, int((due - time.monotonic()) * 1000)) + 1

    def _register(self, mapping: MappingRecord) -> bytes:
        """Write the entry; return the process's key."""
        key = process_key(mapping.pid)
        uid = user_of(mapping.pid)
        if not key:
            return b""
        if not self._users.may_look(uid):
            self._state.count(missed=1)
            return b""
        image = self._image(mapping, uid)
        if isinstance(image, Unknown):
            self._state.unknown(image.runtime, image.version, mapping.pid)
            return key
        found = image and image.placed(mapping.start, mapping.offset)
        if not found:
            return key
        number = self._numbers.get(key)
        if number is None:
            self._met += 1
            if len(self._numbers) >= MOST_IMAGE_NUMBERS:
                del self._numbers[next(iter(self._numbers))]
            number = self._numbers[key] = self._met
        if uid not in self._rooms:
            self._rooms[uid] = walk_rooms.IMAGES + min(len(self._rooms), walk_rooms.USERS - 1)
        room = number % walk_rooms.IMAGES
        self._pids[room] = mapping.pid
        entry = image_entry.encode(number, found, (room, self._rooms[uid]))
        try:
            self._walker.load(found.runtime)
            if found.runtime == wire.V8:
                self._register_functions(number, mapping.pid, uid, found)
            bpf_objects.write_entry(self._walker.images, key, entry)
        except OSError:
            self._state.count(missed=1)
        return key

    def _register_functions(self, number: int, pid: int, uid: int, found: Placed) -> None:
        if self._functions is None:
            from prospect.capture.kernel.bpf_objects import BpfRing  # noqa: PLC0415 - once V8 is met
            from prospect.capture.runtimes.walk_parts import NEWS_BYTES  # noqa: PLC0415 - likewise
            from prospect.capture.v8.new_functions import (  # noqa: PLC0415 - likewise
                NewFunctions,
                RecordWriter,
            )

            self._functions = NewFunctions(
                BpfRing(self._walker.news, NEWS_BYTES).drain,
                RecordWriter(self._walker.output).write,
                self._read_functions,
            )
        self._functions.register(number, pid, uid, found)

    def _image(self, mapping: MappingRecord, uid: int) -> Image | Unknown | None:
        """Return the runtime in the file; None also if its user has no time left."""
        answer = self._users.read(self._reader, mapping, uid)
        if answer is None:
            self._state.count(missed=1)
            return None
        # The file of a process that has ended is not missed.
        is_missing = answer.is_missing and os.path.exists(f"/proc/{mapping.pid}")
        self._state.count(missed=is_missing, held_up=answer.is_held_up)
        return answer.image
