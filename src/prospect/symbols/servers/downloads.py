"""Objects that nothing on this machine names → their files, from debug-file servers.

The servers are those of DEBUGINFOD_URLS; what has the most hits is asked for first, and files go
into the cache. All of it together may take so long and no longer: requests run in threads, which
are left to themselves when the time is over. A server that fails is not asked again. Imported only
when somebody is to be asked.
"""

from __future__ import annotations

import hashlib
import threading
import time
from enum import Enum
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from prospect.elf.image import ElfImage
from prospect.errors import ElfError
from prospect.files.named_files import open_file
from prospect.files.untrusted_open import OpenFile
from prospect.records import Record
from prospect.symbols.cache_directory import new_file, part_name
from prospect.symbols.images.debug_files import (
    ABSENT_SUFFIX,
    DEBUG_INFO,
    DOWNLOAD_SUFFIXES,
    EXECUTABLE,
    MOST_BYTES,
    kept_name,
)
from prospect.symbols.images.image_files import same_build_id
from prospect.symbols.servers.debug_server import (
    ABSENT,
    FOUND,
    DebugServer,
    KeepingError,
    Patience,
    ServerError,
    host_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prospect.symbols.cache_directory import CacheDirectory
    from prospect.symbols.naming_options import DebugServers
    from prospect.symbols.objects import Wanted

# As elfutils: so long nobody is asked again for what no server had.
_ABSENT_FOR_S = 600.0
_MOST_THREADS = 4
_LOOK_S = 0.1


class Outcome(Enum):
    """The result of a request; the text is why an object has no names."""

    FOUND = ""
    ABSENT = "no debug-file server has it"
    TOO_BIG = "its debug file is larger than is fetched"
    FAILED = "no debug-file server could be asked for it"
    LATE = "its debug file did not arrive in time"


class Answers(Record):
    """The result for each build id, and sentences about servers that failed."""

    outcomes: dict[bytes, Outcome]
    notes: list[str]


def fetch_all(
    wanted: Sequence[Wanted],
    servers: DebugServers,
    kept: CacheDirectory,
    announce: Callable[[str], None] | None,
) -> Answers:
    """Ask for files until all are here or the time is over.

    Args:
        wanted: what to ask for, in this order; each build id once.
        servers: whom, and what it may cost.
        kept: the cache, which gets the files.
        announce: called several times a second how far it is; None to say nothing.
    """
    run = _Run(wanted, servers, kept)
    deadline = time.monotonic() + servers.budget_s
    try:
        run.start()
        while (left_s := deadline - time.monotonic()) > 0:
            if announce:
                announce(run.progress(left_s))
            if run.finished.wait(min(left_s, _LOOK_S)):
                break
    finally:
        answers = run.stop()
    kept.evict(DOWNLOAD_SUFFIXES, MOST_BYTES)
    return answers


class _RefusedError(Exception):
    """The server's answer must not be kept."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.name)
        self.outcome = outcome


class _Run:
    """The state that the threads of one `fetch_all` share."""

    def __init__(
        self, wanted: Sequence[Wanted], servers: DebugServers, kept: CacheDirectory
    ) -> None:
        self.finished = threading.Event()
        self._wanted = wanted
        self._queue: Iterator[Wanted] = iter(wanted)
        self._limits = servers
        hosts = frozenset(map(host_of, servers.urls))
        self._servers = {url: DebugServer(url, hosts) for url in servers.urls}
        self._kept = kept
        self._lock = threading.Lock()
        self._threads = min(_MOST_THREADS, len(wanted))
        self._is_stopped = False
        self._received_bytes = 0
        self._parts: set[str] = set()
        self._failures: dict[str, str] = {}
        self._unwritable = ""
        self._outcomes: dict[bytes, Outcome] = {}

    def start(self) -> None:
        """Make the cache's directory and start the threads."""
        try:
            self._kept.make()
        except OSError as error:
            self._unwritable = error.strerror or str(error)
        for _ in range(self._threads):
            threading.Thread(target=self._work, daemon=True).start()

    def stop(self) -> Answers:
        """Take no more answers, leave nothing half written, and return the end of each request."""
        with self._lock:
            self._is_stopped = True
            unasked = Outcome.FAILED if self._unwritable else Outcome.LATE
            outcomes = {
                one.build_id: self._outcomes.get(one.build_id, unasked) for one in self._wanted
            }
            notes = [
                f"The debug-file server {_without_password(url)} was given up: {reason}."
                for url, reason in self._failures.items()
            ]
            parts = list(self._parts)
        self._kept.remove(parts)
        if self._unwritable:
            notes.append(
                f"{self._kept.path} cannot be written, so nothing is fetched from debug-file "
                f"servers: {self._unwritable}."
            )
        late = sum(outcome is Outcome.LATE for outcome in outcomes.values())
        if late:
            notes.append(
                f"The debug-file servers were given {self._limits.budget_s:g} s, in which they did "
                f"not answer for {late} of {len(outcomes)} objects; --debuginfod SEC gives them "
                "longer."
            )
        return Answers(outcomes, notes)

    def progress(self, left_s: float) -> str:
        """Return how far it is."""
        return (
            f"asking debug-file servers: {len(self._outcomes)} of {len(self._wanted)} objects, "
            f"{self._received_bytes / 1e6:.0f} MB; {left_s:.0f} s left ..."
        )

    def _work(self) -> None:
        try:
            while one := self._next():
                outcome = self._serve(one)
                with self._lock:
                    if not self._is_stopped:
                        self._outcomes[one.build_id] = outcome
        finally:
            with self._lock:
                self._threads -= 1
                if not self._threads:
                    self.finished.set()

    def _next(self) -> Wanted | None:
        with self._lock:
            if self._is_stopped or self._unwritable:
                return None
            return next(self._queue, None)

    def _serve(self, one: Wanted) -> Outcome:
        if one.needs_image:
            outcome = self._obtain(one.build_id, EXECUTABLE)
            if outcome is not Outcome.FOUND or self._has_symbols(one.build_id):
                return outcome
        return self._obtain(one.build_id, DEBUG_INFO)

    def _has_symbols(self, build_id: bytes) -> bool:
        path = self._kept.use(kept_name(build_id, EXECUTABLE))
        image = _parsed(path) if path else None
        return image is not None and image.find_section(b".symtab") >= 0

    def _obtain(self, build_id: bytes, kind: str) -> Outcome:
        """Take a file from the cache, else ask one server after the other."""
        if self._kept.use(kept_name(build_id, kind)):
            return Outcome.FOUND
        marker = self._absent_name(build_id, kind)
        age_s = self._kept.age_s(marker)
        if age_s is not None and age_s < _ABSENT_FOR_S:
            return Outcome.ABSENT
        outcomes = []
        for url, server in self._servers.items():
            if url not in self._failures and not self._is_stopped:
                outcome = self._ask(url, server, build_id, kind)
                if outcome is Outcome.FOUND:
                    return outcome
                outcomes.append(outcome)
        if outcomes == [Outcome.ABSENT] * len(self._servers):
            self._kept.put(marker, ())
            return Outcome.ABSENT
        if self._is_stopped:
            return Outcome.LATE
        return Outcome.TOO_BIG if Outcome.TOO_BIG in outcomes else Outcome.FAILED

    def _ask(self, url: str, server: DebugServer, build_id: bytes, kind: str) -> Outcome:
        part = part_name()
        with self._lock:
            self._parts.add(part)
        try:
            self._fetch(server, build_id, kind, part)
        except _RefusedError as refusal:
            return refusal.outcome
        except ServerError as failure:
            with self._lock:
                self._failures.setdefault(url, str(failure))
            return Outcome.FAILED
        except (KeepingError, OSError) as error:
            self._unwritable = getattr(error, "strerror", "") or str(error)
            return Outcome.FAILED
        finally:
            with self._lock:
                self._parts.discard(part)
        return Outcome.FOUND

    def _fetch(self, server: DebugServer, build_id: bytes, kind: str, part: str) -> None:
        """Fetch a file into the cache, if it is what was asked for."""
        limits = self._limits
        patience = Patience(limits.prompt_s, limits.whole_s, limits.most_bytes)
        with (
            self._kept.opened() as directory,
            new_file(directory, kept_name(build_id, kind), part) as descriptor,
        ):
            answer = server.fetch(build_id, kind, descriptor, patience, self._wants)
            if answer != FOUND:
                raise _RefusedError(Outcome.ABSENT if answer == ABSENT else Outcome.TOO_BIG)
            image = _parsed(b"/proc/self/fd/%d" % descriptor)
            if image is None or not same_build_id(build_id, image.build_id):
                raise ServerError("it sent another file than was asked for")

    def _wants(self, arrived_bytes: int) -> bool:
        """Count what arrives; say whether there is time and room for more."""
        with self._lock:
            self._received_bytes += arrived_bytes
            return not self._is_stopped and self._received_bytes <= MOST_BYTES

    def _absent_name(self, build_id: bytes, kind: str) -> str:
        """Name the note that these servers have no such file; others may have it."""
        servers = hashlib.blake2b(" ".join(self._servers).encode(), digest_size=8).hexdigest()
        return f"{build_id.hex()}-{kind}-{servers}{ABSENT_SUFFIX}"


def _parsed(path: bytes) -> ElfImage | None:
    file = open_file(path)
    try:
        return ElfImage.parse(file.data) if isinstance(file, OpenFile) else None
    except ElfError:
        return None


def _without_password(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
