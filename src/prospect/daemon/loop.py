"""The daemon: samples the whole system window by window until it is stopped.

It waits for the first of these: a window's end, a child that has written one, a request on the
control socket, a signal, the service manager's watchdog. A window ends on time even if the last one
is not written yet. After SIGTERM the daemon has a deadline, at which it gives up unfinished work.

Source: sd_notify(3), sd_watchdog_enabled(3): notifications are datagrams of assignments to the
socket that NOTIFY_SOCKET names.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from prospect.daemon.ceiling import Ceiling
from prospect.daemon.control_socket import COMMANDS, ControlSocket
from prospect.daemon.daemon_limits import (
    END_S,
    KEPT_SHARE,
    KILLED_S,
    LAST_NAMES_S,
    LAST_SEND_S,
    LAST_TAKE_S,
    LONGEST_LOOK_S,
    MOST_CLIENTS_WAITING,
)
from prospect.daemon.metrics import MetricsServer, is_address, metrics_text, write_metrics
from prospect.daemon.sampling import Sampling, give_back
from prospect.daemon.senders import Pushing, Shipping
from prospect.daemon.status import (
    PeakMemory,
    Totals,
    figures_of,
    keep_status,
    note_alive,
    resident_bytes,
    used_now,
)
from prospect.daemon.window_writing import StoreWriting
from prospect.errors import ProspectError, StoreError
from prospect.store.segments import is_session_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

    from prospect.daemon.control_socket import Request
    from prospect.daemon.daemon_options import DaemonOptions
    from prospect.store.directory import StoreDirectory

READY, RELOADING, STOPPING, ALIVE = "READY=1", "RELOADING=1", "STOPPING=1", "WATCHDOG=1"


class ServiceManager:
    """The service manager that started the daemon, if it wants notifications.

    Attributes:
        alive_every_s: the interval of its watchdog; None for none.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]
        elif not self._address.startswith("/"):
            self._address = ""
        period, owner = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
        is_ours = not owner or owner == str(os.getpid())
        has_period = period.isascii() and period.isdigit() and int(period) > 0
        self.alive_every_s = int(period) / 2e6 if has_period and is_ours else None

    def notify(self, *words: str) -> None:
        """Send it `words`, if it wants notifications."""
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.settimeout(0)
            out.sendto("\n".join(words).encode(), self._address)


_ENDING = (signal.SIGTERM, signal.SIGINT)
# Samples of a shorter time are discarded when sampling starts again.
SHORT_S = 1.0


class Daemon:
    """A daemon and its store, to which no other process writes."""

    def __init__(
        self,
        store: StoreDirectory,
        read_options: Callable[[], DaemonOptions],
        say: Callable[[str], None],
    ) -> None:
        """Begin to sample and to listen.

        Args:
            store: locked.
            read_options: returns the settings; called again on SIGHUP.
            say: called with each line for a person.

        Raises:
            ProspectError: the system cannot be sampled, or the settings are invalid.
        """
        self._store = store
        self._read_options = read_options
        self._say = say
        self._options = read_options()
        self._manager = ServiceManager()
        self._signals: list[int] = []
        self._ending = Ending()
        self._has_said_end = False
        self._waiting: list[Request] = []
        self._wants_window = False
        self._next_session = ""
        self._next_options: DaemonOptions | None = None
        self._metrics_complaint = ""
        self._metrics_server: MetricsServer | None = None
        self._totals, self._peak = Totals(), PeakMemory()
        self._shipping = Shipping(store, self._options, say)
        self._pushing = Pushing(store, self._options, say)
        self._writing = StoreWriting(store, self._options.keep, say, self._shipping.set_aside)
        self._ceiling = Ceiling(self._options, os.cpu_count() or 1)
        self._sampling: Sampling | None = self._begun()

    def run(self, started: str) -> None:
        """Run until a signal, and then write the last window.

        Args:
            started: the message once the daemon answers requests and handles signals.

        Raises:
            ProspectError: it cannot continue.
        """
        with ExitStack() as opened:
            control = opened.enter_context(closing(ControlSocket(self._store)))
            opened.callback(self._tell)
            opened.callback(self._writing.close)
            opened.callback(self._stop_sampling)
            wake_fd = opened.enter_context(_woken_by_signals(self._signals, self._ending))
            opened.callback(self._serve_metrics, "")
            self._serve_metrics(self._options.metrics)
            self._manager.notify(READY)
            self._say(started)
            self._tell()
            while True:
                self._wait(control, wake_fd)
                self._follow_signals()
                self._keep_small()
                self._shipping.go_on()
                if not self._go_on():
                    break
            self._manager.notify(STOPPING)
            self._pushing.end(self._ending.send_until_s)
            self._shipping.end(self._ending.send_until_s)

    def _wait(self, control: ControlSocket, wake_fd: int) -> None:
        poll = select.poll()
        for descriptor in (
            control.fileno(),
            wake_fd,
            self._writing.answer_fd,
            self._shipping.answer_fd,
            self._pushing.answer_fd,
        ):
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(1000 * self._timeout_s())}
        self._manager.notify(ALIVE)
        note_alive(self._store)
        control.keep()
        if wake_fd in ready:
            with suppress(BlockingIOError):
                os.read(wake_fd, 512)
        if self._writing.answer_fd in ready:
            self._writing.finish()
            give_back()  # the window was kept in case the disk was full
            if self._writing.newest:
                self._pushing.add(self._writing.newest)
            self._tell()
        if self._pushing.answer_fd in ready:
            self._pushing.finish()
        if self._shipping.answer_fd in ready:
            self._shipping.finish()
            self._tell()
        self._follow_clients(control)

    def _follow_clients(self, control: ControlSocket) -> None:
        """Handle requests of clients; on a busy machine several may wait."""
        clients = select.poll()
        clients.register(control.fileno(), select.POLLIN)
        for _ in range(MOST_CLIENTS_WAITING):
            if not clients.poll(0):
                break
            if request := control.accept():
                self._follow(request)

    def _timeout_s(self) -> float:
        waits = [LONGEST_LOOK_S, self._manager.alive_every_s or LONGEST_LOOK_S]
        waits.append(self._shipping.due_s())
        waits.append(self._ending.write_left_s)
        is_idle = self._writing.answer_fd < 0
        if self._signals or (is_idle and (self._ending.has_begun or self._wants_window)):
            return 0.0
        if self._sampling:
            waits.append(self._sampling.look_again_s)
            if is_idle or self._writing.has_room:
                waits.append(self._sampling.due_s())
        return max(min(waits), 0.0)

    def _go_on(self) -> bool:
        """Do the work that is due; return False at the end.

        While a window is being written, this handles only the next one's end and the deadline.
        """
        is_due = self._sampling is not None and self._sampling.due_s() <= 0
        if self._writing.answer_fd >= 0:
            if self._ending.has_begun or (is_due and self._writing.has_room):
                self._end_window(is_last=self._ending.has_begun)
            if self._ending.has_begun:
                self._writing.hurry()
            if self._ending.write_left_s > 0:
                return True
            self._writing.give_up()
        if self._sampling and (is_due or self._wants_window or self._ending.has_begun):
            self._end_window(is_last=self._ending.has_begun or self._is_to_stop)
            self._wants_window = False
            self._take_options()
            return True
        self._wants_window = False
        self._take_options()
        if self._next_session:
            self._writing.session, self._next_session = self._next_session, ""
        for request in self._waiting:
            self._answer(request)
        self._waiting.clear()
        return not self._ending.has_begun

    def _keep_small(self) -> None:
        if self._sampling and self._sampling.has_much:
            try:
                with self._peak.watched(), self._ending.in_time():
                    self._sampling.take_in()
            except TooLateError:
                self._lose_last_window()

    def _lose_last_window(self) -> None:
        self._writing.failed += 1
        self._say("the last window is lost: the machine is too busy to name its functions")
        self._stop_sampling()

    def _end_window(self, *, is_last: bool) -> None:
        """End the window, and give it to the process that writes."""
        if self._sampling is None:
            return
        began_s = time.monotonic()
        try:
            with self._peak.watched(), self._ending.in_time():
                window, lost = self._sampling.take()
        except TooLateError:
            self._lose_last_window()
            return
        if is_last:
            self._stop_sampling()
        self._totals.add(window, lost)
        self._writing.add(window)
        del window
        give_back()
        self._keep_limits(time.monotonic() - began_s)

    def _begun(self) -> Sampling:
        """Begin to sample, with the current steps; raises as `Sampling`."""
        options = self._ceiling.options
        sampling = Sampling(options, self._ending.is_late_for_names)
        sampling.follow(options, self._ceiling.notes())
        return sampling

    def _keep_limits(self, took_s: float) -> None:
        """Take a step or take one back, depending on the cost until now.

        Args:
            took_s: the time it took to make the window, in which more was sampled.
        """
        if self._sampling is None:
            return
        before = self._ceiling.options
        used = used_now(self._sampling.child_pids, self._writing, self._peak)
        has_changed = self._ceiling.note(used)
        # Names are most of the memory; the next windows read the needed ones again.
        if resident_bytes() > KEPT_SHARE * self._options.memory_limit_bytes:
            self._sampling.forget_names()
        if not has_changed:
            return
        steps = self._ceiling.notes()
        self._say(
            f"to stay within its limits, windows have {self._ceiling.words}"
            if steps
            else "windows are complete again"
        )
        options = self._ceiling.options
        if options.opened == before.opened:
            self._sampling.follow(options, steps)
            return
        if took_s > SHORT_S:
            self._end_window(is_last=True)
        self._stop_sampling()
        self._sampling = self._begun()

    @property
    def _is_to_stop(self) -> bool:
        """Whether sampling is to end, by the last waiting request to stop or start."""
        words = [one.words[0] for one in self._waiting if one.words[0] in ("stop", "start")]
        return words[-1:] == ["stop"]

    def _follow_signals(self) -> None:
        while self._signals:
            number = self._signals.pop(0)
            if number == signal.SIGHUP:
                self._reload()
            elif not self._has_said_end:
                self._has_said_end = True
                name = signal.Signals(number).name
                self._say(f"{name}: the daemon writes the last window, and ends")

    def _reload(self) -> None:
        self._manager.notify(RELOADING, f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        try:
            self._next_options = self._read_options()
        except ProspectError as error:
            self._keep_options(error)
            return
        # A window has one set of settings: the samples so far become a window.
        self._wants_window |= self._next_options.sampling != self._options.sampling

    def _keep_options(self, error: ProspectError) -> None:
        self._say(f"the settings are as they were: {error}")
        self._manager.notify(READY)

    def _take_options(self) -> None:
        """Use settings that were read again, if any, while there is no unfinished window."""
        options, self._next_options = self._next_options, None
        if options is None:
            return
        try:
            if options.metrics != self._options.metrics:
                self._serve_metrics(options.metrics)
        except ProspectError as error:
            self._keep_options(error)
            return
        try:
            if self._sampling and options.sampling != self._options.sampling:
                self._stop_sampling()
                self._ceiling.follow(options)
                self._sampling = self._begun()
            self._ceiling.follow(options)
            self._options, self._writing.keep = options, options.keep
            self._shipping.follow(options)
            self._pushing.follow(options)
            self._say("the settings were read again")
            self._manager.notify(READY)
        except ProspectError as error:
            self._ceiling.follow(self._options)
            self._sampling = self._begun()
            self._keep_options(error)

    def _follow(self, request: Request) -> None:
        """Handle a request; one that needs a window is answered once that is written."""
        word, *rest = request.words or [""]
        if word not in COMMANDS or len(rest) != (word == "session"):
            request.answer({"error": f"no such request; there are {', '.join(COMMANDS)} NAME"})
            return
        if word == "session" and not is_session_name(rest[0]):
            request.answer({"error": "give a name of at most 32 letters, digits, - and _"})
            return
        if word == "status":
            self._answer(request)
            return
        if word == "start" and self._sampling is None:
            try:
                self._sampling = self._begun()
            except ProspectError as error:
                request.answer({"error": str(error)})
                return
        self._waiting.append(request)
        # Other requests or new settings may need a window already.
        self._wants_window |= word != "start"
        if word == "session":
            self._next_session = rest[0]

    def _answer(self, request: Request) -> None:
        status = self._status()
        if request.words == ["reset"]:
            status["removed"] = self._writing.forget()
        request.answer(status)

    def _status(self) -> dict[str, Any]:
        segments = self._store.segments()
        return {
            **self._figures(),
            "segments": len(segments),
            "store_bytes": sum(map(self._store.size_bytes, segments)),
        }

    def _figures(self) -> dict[str, Any]:
        pids = self._sampling.child_pids if self._sampling else None
        figures = figures_of(self._store, self._writing, self._totals, self._ceiling, pids)
        return {**figures, **self._shipping.figures(), **self._pushing.figures()}

    def _tell(self) -> None:
        """Keep the status in the store, and update the metrics."""
        figures = self._figures()
        keep_status(self._store, figures)
        if self._metrics_server:
            self._metrics_server.text = metrics_text(figures).encode(errors="backslashreplace")
        elif self._options.metrics and not is_address(self._options.metrics):
            self._write_metrics(figures)

    def _write_metrics(self, figures: Mapping[str, Any]) -> None:
        """Write the file of metrics; report each new reason of failure once."""
        complaint = ""
        try:
            write_metrics(self._options.metrics, metrics_text(figures))
        except StoreError as error:
            complaint = str(error)
            if complaint != self._metrics_complaint:
                self._say(complaint)
        self._metrics_complaint = complaint

    def _serve_metrics(self, metrics: str) -> None:
        """Serve metrics if they are an address; raises as `MetricsServer`."""
        server = MetricsServer(metrics) if is_address(metrics) else None
        if self._metrics_server:
            self._metrics_server.close()
        self._metrics_server = server

    def _stop_sampling(self) -> None:
        if self._sampling:
            self._sampling.close()
            self._sampling = None


@contextmanager
def _woken_by_signals(noted: list[int], ending: Ending) -> Iterator[int]:
    """Note signals in a list; yield a descriptor that becomes readable with each.

    A signal that ends the daemon sets the deadline at once, whatever the daemon is doing.
    """

    def note(number: int, _frame: FrameType | None) -> None:
        noted.append(number)
        if number in _ENDING:
            ending.begin()

    read_fd, write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
    handlers = {number: signal.signal(number, note) for number in (*_ENDING, signal.SIGHUP)}
    handlers[signal.SIGALRM] = signal.signal(signal.SIGALRM, ending.on_alarm)
    try:
        yield read_fd
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before)
        os.close(read_fd)
        os.close(write_fd)


# The deadline of a daemon that a signal ends, and the alarm that interrupts longer work.
#
# A service manager kills a service and all its processes that do not end in time. So the last
# window has until a first point in time to get its names, the store until a second one to write it,
# and sending windows elsewhere has the rest.
#
# Source: setitimer(2); signal(7).

# The priority of the daemon's first thread, and of its later threads and children, at the end: a
# busy machine would delay it.
_LAST_PRIORITY = -10
_SOON_S = 0.01


class TooLateError(Exception):
    """The deadline has passed."""


class Ending:
    """The points in time by which a daemon's last work must be done."""

    def __init__(self) -> None:
        self.has_begun = False
        self._end_s = float("inf")
        self._is_in_take = False

    def begin(self) -> None:
        """Set the deadline, if it is not set yet; signal handlers may call it at any point."""
        if self.has_begun:
            return
        self._end_s = time.monotonic() + END_S
        self.has_begun = True
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, _LAST_PRIORITY)
        if self._is_in_take:
            self._set_alarm()

    def is_late_for_names(self) -> bool:
        """Return whether it is too late to read names of further files for the last window."""
        return time.monotonic() > self._end_s - END_S + LAST_NAMES_S

    @property
    def write_left_s(self) -> float:
        """The seconds until the store must have everything; infinite before `begin`."""
        return self._end_s - KILLED_S - LAST_SEND_S - time.monotonic()

    @property
    def send_until_s(self) -> float:
        """The end of the time for sending windows elsewhere, in CLOCK_MONOTONIC."""
        return self._end_s - KILLED_S

    @contextmanager
    def in_time(self) -> Iterator[None]:
        """Interrupt the block at the deadline of the last window.

        Raises:
            TooLateError: anywhere in the block, whose objects must not be used any more.
        """
        self._is_in_take = True
        try:
            if self.has_begun:
                self._set_alarm()
            yield
        finally:
            self._is_in_take = False
            signal.setitimer(signal.ITIMER_REAL, 0)

    def on_alarm(self, _number: int, _frame: FrameType | None) -> None:
        """Handle SIGALRM."""
        if self._is_in_take:
            raise TooLateError

    def _set_alarm(self) -> None:
        left_s = self._end_s - END_S + LAST_TAKE_S - time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, max(left_s, _SOON_S))
