"""A daemon's settings."""

from __future__ import annotations

from prospect.daemon.daemon_limits import CPU_LIMIT_PERCENT
from prospect.records import Record, replace
from prospect.store.retention import Keep


class DaemonOptions(Record):
    """Settings of a daemon.

    Attributes:
        frequency_hz: samples per second on each CPU, of all clocks together.
        clocks: how many timers share that rate.
        call_graph: how callers in user space are recorded, "" for not at all.
        window_s: how long a window is.
        separate: what the store keeps apart: some of "process", "thread", "cpu".
        keep: how much it keeps.
        use_cache: whether symbol tables are kept on disk, for the next start.
        metrics: the path of a file of metrics, "" for none.
        ship: the URL that finished hours are sent to, "" for none.
        host_share: of hosts that send an hour.
        push: the URL of a server that gets each window, "" for none.
        cpu_limit_percent: how much of the machine's CPU time the daemon may take.
        memory_limit_bytes: how much memory it may take, its processes included.
        reads_python: whether Python functions are read.
        new_files: how many files' names may be read for the first time in a window, 0 for all.
        kubelet: the URL of a kubelet's pods that is asked for names of containers, "" for none.
        target: another machine that is sampled instead of this one, as ssh takes it.
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
        """Those that a window depends on; the others are as if not given."""
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
        """Those that the sampled events depend on; the others are as if not given."""
        return replace(self.sampling, window_s=0.0, new_files=0, separate=())
