"""A daemon's settings."""

from __future__ import annotations

from prospect.daemon.daemon_limits import CPU_LIMIT_PERCENT
from prospect.records import Record, replace
from prospect.store.retention import Keep


class DaemonOptions(Record):
    """Settings of a daemon.

    Attributes:
        frequency_hz: samples per second on each CPU, of all clocks together.
        clocks: the number of timers that share this rate.
        call_graph: the mode of recording callers in user space, "" for none.
        window_s: the length of a window.
        separate: keys that the store distinguishes: some of "process", "thread", "cpu".
        keep: the bounds of the store.
        use_cache: whether to keep symbol tables on disk, for the next start.
        metrics: the path of a file of metrics, or the address of a server, "" for none.
        ship: the URL to which finished hours are sent, "" for none.
        host_share: the share of hosts that send an hour.
        push: the URL of a server that gets each window, "" for none.
        cpu_limit_percent: the daemon's limit in percent of the machine's CPU time.
        memory_limit_bytes: the limit of the daemon and its processes.
        reads_python: whether to read Python functions.
        new_files: the number of new files whose names may be read in a window, 0 for all.
        kubelet: the URL of a kubelet's pods, for names of containers, "" for none.
        target: another machine to sample instead of this one, as ssh takes it.
    """

    frequency_hz: int = 19
    clocks: int = 4
    call_graph: str = "fp"
    window_s: float = 60.0
    separate: tuple[str, ...] = ()
    keep: Keep = Keep()
    use_cache: bool = True
    metrics: str = ""
    ship: str = ""
    host_share: float = 1.0
    push: str = ""
    command_line: tuple[str, ...] = ()
    target: str = ""
    cpu_limit_percent: float = CPU_LIMIT_PERCENT
    memory_limit_bytes: int = 200 << 20
    reads_python: bool = True
    new_files: int = 0
    kubelet: str = ""

    @property
    def sampling(self) -> DaemonOptions:
        """The settings on which a window depends; the others have their defaults."""
        return replace(
            self,
            keep=Keep(),
            metrics="",
            ship="",
            host_share=1.0,
            push="",
            cpu_limit_percent=CPU_LIMIT_PERCENT,
            memory_limit_bytes=0,
        )

    @property
    def opened(self) -> DaemonOptions:
        """The settings on which the sampled events depend; the others have their defaults."""
        return replace(self.sampling, window_s=0.0, new_files=0, separate=())
