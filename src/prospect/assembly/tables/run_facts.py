"""RecordingInfo + record counts → RunInfo: the facts in the report's header.

docs/recording.md documents the keys of Prospect's feature section (`extras`). A recording by `perf
record` has none of them; every fact is then derived from perf's sections, or empty. Sentences name
data of a recording that no profile shows, and the tool that shows it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from prospect.abi import constants as abi
from prospect.abi.syscall_names import syscall_name
from prospect.assembly.extras import (
    by_number,
    counts_by_name,
    counts_of,
    interval_ns,
    is_i32,
    mapping_of,
    number_of,
    texts_of,
)
from prospect.assembly.tables.clocks import clock_count
from prospect.events.record_columns import TASK_EXEC, TASK_FORK
from prospect.events.samples import NO_CPU
from prospect.events.side_tables import DECODED_TYPES
from prospect.profile.run_info import EventInfo, RunInfo, Throttled, counted_notes
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prospect.abi.attr import EventAttr, EventDescription
    from prospect.abi.recorded_facts import RecordingInfo
    from prospect.columns.array_types import F64, U16, U64, Bools
    from prospect.events.record_columns import Events, Losses, Samples
    from prospect.events.runtime_records import RuntimeRecords

_NS = 1e-9
_SIDE_BAND = abi.FLAG_MMAP | abi.FLAG_MMAP2 | abi.FLAG_COMM | abi.FLAG_TASK
_UNNAMED = "/proc/self/fd/"
# An unknown sleep, poll or futex that continues after a stop.
_RESTARTED = "restart_syscall"
# /proc/stat's columns (proc(5)); guest time is contained in user time.
_STAT_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
# Nanoseconds a sample, as the recorder measured them.
_COSTS = ("sample_cost_ns", "sample_cost_spread_ns", "kernel_sample_cost_ns")
_KERNEL = b"[kernel.kallsyms]"
_DUMMY = (abi.PERF_TYPE_SOFTWARE, abi.PERF_COUNT_SW_DUMMY)
_KERNEL_TYPES = range(1, 64)  # from 64 on: records of the perf tool itself
_KNOWN_TYPES = {*DECODED_TYPES, abi.PERF_RECORD_BPF_EVENT}
_PID = np.uint64((1 << 32) - 1)
# Units that write traces, by the beginning of their events' names.
_TRACERS = ("intel_pt", "intel_bts", "cs_etm", "arm_spe", "hisi_ptt")


def describe_run(info: RecordingInfo, events: Events, limits: Iterable[str]) -> RunInfo:
    """Gather the facts of a run; unknown ones are empty or zero.

    `limits` are sentences about missing samples, in addition to the recorded ones.
    """
    extras = info.extras
    begin_ns, end_ns = interval_ns(info, events)
    cpus = counts_of(extras.get("cpus"))
    wall_seconds = max(end_ns - begin_ns, 0) * _NS
    first = info.events[0].attr if info.events else None
    cpu_count = len(cpus) or _cpus_seen(events) or info.cpus_online
    is_system_wide = _is_system_wide(first, extras)
    most_s = wall_seconds * cpu_count
    names = ("Linux", info.hostname, info.os_release, info.arch)
    return RunInfo(
        origin=_origin(info),
        command=() if attached_pids(extras) else texts_of(extras.get("command")),
        recorder=info.perf_version.replace("-", " ", 1)
        if info.perf_version.startswith(("prospect-", "simpleperf-"))
        else f"perf {info.perf_version}".strip(),
        recorder_command_line=info.command_line,
        hostname=info.hostname,
        os_release=info.os_release,
        uname=next(iter(texts_of([extras.get("uname")])), "") or " ".join(filter(None, names)),
        arch=info.arch,
        cpu_description=info.cpu_description,
        cpu_mhz=number_of(extras.get("cpu_mhz")),
        cpus=cpu_count,
        started_at=_started_at(info, wall_seconds),
        wall_seconds=wall_seconds,
        begin_ns=begin_ns,
        end_ns=end_ns,
        system_wide=is_system_wide,
        clock=_clock_words(first, info),
        events=tuple(
            event_info(
                event,
                info,
                counter_time(events.samples, row, event, by_cpu=is_system_wide, most_s=most_s),
            )
            for row, event in enumerate(info.events)
        ),
        limits=counted_notes(
            (*_recorded_limits(first, extras), *left_out(info.events, events), *limits)
        ),
        damage=events.damage,
        unread_bytes=events.unread_bytes,
        statistics=_statistics(events, info),
        accounting=_accounting(extras),
        cpu_accounting=_cpu_accounting(extras),
        is_cut=extras.get("is_cut") is True,
        throttled=tuple(_throttled(extras)),
        calls_before=_calls_before(extras, info.arch),
        dropped_share=min(max(number_of(extras.get("dropped_share")), 0.0), 1.0),
        kernel_build_id=next((b.build_id.hex() for b in info.build_ids if b.name == _KERNEL), ""),
        has_user_callers=has_user_callers(info),
    )


def _calls_before(extras: dict[str, Any], machine: str) -> tuple[int, dict[int, str]]:
    found = mapping_of(extras.get("calls_before"))
    calls = {tid: counts_of(call) for tid, call in by_number(found.get("calls")).items()}
    named = {
        tid: syscall_name(machine, call[0], compat=bool(call[1]))
        for tid, call in calls.items()
        if len(call) == 2
    }
    known = {tid: name for tid, name in named.items() if name != _RESTARTED}
    return int(number_of(found.get("read_ns"))), known


def _throttled(extras: dict[str, Any]) -> Iterator[Throttled]:
    rows = extras.get("throttled")
    for row in rows if type(rows) is list else ():
        if type(row) is not list or len(row) != 5 or not isinstance(row[0], str):
            continue
        figures, pids = counts_of(row[1:4]), counts_of(row[4])
        if figures and figures[1]:
            yield Throttled(row[0], figures[0], figures[1], figures[2] * _NS, pids)


def attached_pids(extras: dict[str, Any]) -> tuple[int, ...]:
    """Return the processes that the recorder attached to instead of starting a command."""
    return counts_of(extras.get("attached_pids"))


def _origin(info: RecordingInfo) -> str:
    """Return the recording's name; the recorded processes if it has no name and no command."""
    if not info.origin.startswith(_UNNAMED):
        return info.origin
    pids = attached_pids(info.extras)
    if pids:
        return f"process{'es' * (len(pids) > 1)} {', '.join(map(str, pids))}"
    return "the whole system" if info.extras.get("command") == [] else info.origin


def has_user_callers(info: RecordingInfo) -> bool:
    """Return whether an event records callers in user space."""
    return any(
        attr.sample_stack_user > 0
        or (
            attr.sample_type & abi.PERF_SAMPLE_CALLCHAIN
            and not attr.flags & abi.FLAG_EXCLUDE_CALLCHAIN_USER
        )
        for attr in (event.attr for event in info.events)
    )


def _started_at(info: RecordingInfo, wall_seconds: float) -> float:
    recorded = number_of(info.extras.get("started_at")) or info.started_at
    return recorded or max(info.ended_at - wall_seconds, 0.0)


def _cpus_seen(events: Events) -> int:
    seen = events.samples.cpu
    if not len(seen):
        return 0
    some = seen[:: max(1, len(seen) // 65536)]
    return len(set(some.tolist()) - {NO_CPU})


def _is_system_wide(attr: EventAttr | None, extras: dict[str, Any]) -> bool:
    scope = extras.get("scope")
    if scope is not None:
        return bool(scope == "system")
    # perf enables the events of a command at exec, and samples of -p and -t have no CPU.
    # Source: evsel__config() in tools/perf/util/evsel.c, Linux 6.18.
    names_cpu = attr is not None and bool(attr.sample_type & abi.PERF_SAMPLE_CPU)
    return attr is not None and names_cpu and not attr.flags & abi.FLAG_ENABLE_ON_EXEC


def _clock_words(attr: EventAttr | None, info: RecordingInfo) -> str:
    # A dummy event only makes side-band records; the sampled events follow it.
    if attr is None or (attr.type, attr.config) == _DUMMY:
        return ""
    if attr.type == abi.PERF_TYPE_SOFTWARE:
        if attr.config == abi.PERF_COUNT_SW_CPU_CLOCK:
            return (
                "cpu-clock, a timer: time with interrupts off is charged to the instruction "
                "that re-enables them"
            )
        if attr.config == abi.PERF_COUNT_SW_TASK_CLOCK:
            return "task-clock, a timer of the task's own running time"
        return "a software event, not a clock"
    if attr.type in (abi.PERF_TYPE_HARDWARE, abi.PERF_TYPE_RAW):
        return _counter_words(info)
    return "an event, not a clock"


def _counter_words(info: RecordingInfo) -> str:
    """Describe a hardware counter by whether it is known to interrupt by NMIs.

    Those of x86 always do; those of arm64 only with pseudo-NMIs, which our recorder detects and no
    section of perf.data shows.
    Source: ``drivers/perf/arm_pmu.c`` armpmu_request_irq(), Linux 6.18.
    """
    is_x86 = info.arch in ("x86_64", "i386", "i486", "i586", "i686")
    if is_x86 or info.extras.get("counters_are_nmis") is True:
        return "a hardware counter, which also samples code with interrupts off"
    return (
        "a hardware counter; if it cannot interrupt code with interrupts off, that time is "
        "charged to the instruction that re-enables them"
    )


def _recorded_limits(attr: EventAttr | None, extras: dict[str, Any]) -> tuple[str, ...]:
    recorded = extras.get("limits")
    if isinstance(recorded, list):
        return texts_of(recorded)
    if attr is not None and attr.flags & abi.FLAG_EXCLUDE_KERNEL:
        return ("No kernel samples: the recording was made of user space only.",)
    return ()


def _statistics(events: Events, info: RecordingInfo) -> dict[str, int]:
    """Count the kernel's records without synthesised ones, which have time 0."""
    counts, tasks = events.counts, events.tasks
    synthesised_tasks = _is_synthesised(tasks.time_ns)
    synthesised_forks = int((synthesised_tasks & (tasks.kind == TASK_FORK)).sum())
    synthesised_maps = int(_is_synthesised(events.mmaps.time_ns).sum())
    statistics = {
        "execs": int((tasks.kind == TASK_EXEC).sum()),
        "forks": counts.get(abi.PERF_RECORD_FORK, 0) - synthesised_forks,
        "maps": counts.get(abi.PERF_RECORD_MMAP, 0)
        + counts.get(abi.PERF_RECORD_MMAP2, 0)
        - synthesised_maps,
        "exits": counts.get(abi.PERF_RECORD_EXIT, 0),
        "samples": len(events.samples),
        "lost": int(events.losses.count.sum()),
    }
    if beside := int(events.losses.count[lost_beside(events.losses, info)].sum()):
        statistics["lost_beside"] = beside
    if switches := _lost_switches(info):
        statistics["lost_switches"] = switches
    of_kernel = {
        kind: number
        for kind, number in counts.items()
        if kind in _KERNEL_TYPES and kind != abi.PERF_RECORD_SAMPLE
    }
    synthesised = int(synthesised_tasks.sum()) + synthesised_maps
    statistics["notifications"] = sum(of_kernel.values()) - synthesised
    statistics["unknowns"] = sum(of_kernel[kind] for kind in of_kernel.keys() - _KNOWN_TYPES)
    return statistics | counts_by_name(info.extras.get("counters"))


def lost_beside(losses: Losses, info: RecordingInfo) -> Bools:
    """Return which losses are of events without samples: mappings, processes and the like."""
    silent = [
        number
        for event in info.events
        if (event.attr.type, event.attr.config) == _DUMMY
        for number in event.ids
    ]
    is_silent = np.isin(losses.id, np.array(silent, np.uint64))
    return is_silent & np.equal(losses.kind, abi.PERF_RECORD_LOST_SAMPLES)


def _lost_switches(info: RecordingInfo) -> int:
    """Return the number of lost records of events that only report switches and waits.

    Only the counters of each event have it (PERF_FORMAT_LOST, Linux 6.0): a LOST record counts the
    losses of all events of its ring.
    """
    lost = by_number(info.extras.get("lost"))
    return sum(
        count
        for event in info.events
        if event.attr.flags & abi.FLAG_CONTEXT_SWITCH and not event.attr.flags & _SIDE_BAND
        for count in counts_of([lost.get(number, 0) for number in event.ids])
    )


def _is_synthesised(time_ns: U64) -> Bools:
    """Mark records of earlier tasks and mappings; none if no record has a time."""
    if not time_ns.any():
        return np.zeros(len(time_ns), np.bool_)
    return np.equal(time_ns, 0)


def _accounting(extras: dict[str, Any]) -> dict[str, Any]:
    """Return the kernel's accounting of the interval, in seconds, under flat names."""
    accounting: dict[str, Any] = dict(_stat_seconds(extras, "cpu"))
    for source, prefix in (("rusage", "command_"), ("recorder_rusage", "recorder_")):
        usage = mapping_of(extras.get(source))
        accounting |= {f"{prefix}{key}": number_of(value) for key, value in usage.items()}
    if extras.get("command") and is_i32(extras.get("exit_status")):
        accounting["command_exit_status"] = extras["exit_status"]
    costs = {key: number_of(extras.get(key)) for key in _COSTS}
    accounting |= {key: cost for key, cost in costs.items() if cost > 0}
    return accounting


def _cpu_accounting(extras: dict[str, Any]) -> dict[int, dict[str, float]]:
    """Return the same by CPU, for those with a line in /proc/stat at both ends."""
    seconds = {cpu: _stat_seconds(extras, f"cpu{cpu}") for cpu in counts_of(extras.get("cpus"))}
    return {cpu: found for cpu, found in seconds.items() if found}


def _stat_seconds(extras: dict[str, Any], line: str) -> dict[str, float]:
    """Return the gains of one line of /proc/stat in the interval, in seconds."""
    stat = mapping_of(extras.get("proc_stat"))
    hz = number_of(stat.get("hz"))
    start, end = (counts_of(mapping_of(stat.get(side)).get(line)) for side in ("start", "end"))
    if hz < 1:
        return {}
    return {
        f"{name}_s": (after - before) / hz
        for name, before, after in zip(_STAT_FIELDS, start, end, strict=False)
    }


def left_out(described: Sequence[EventDescription], events: Events) -> Iterator[str]:
    """Yield a sentence for each kind of recorded data that is not read."""
    if events.counts.get(abi.PERF_RECORD_AUX):
        tracers = " and ".join(sorted({name for name in map(_tracer, described) if name}))
        yield (
            f"The recording has traces of {tracers or 'the processor'}, which are not decoded: "
            "perf inject --itrace=i100usg -o OUTPUT turns them into samples that are read, "
            "perf script --itrace shows them."
        )
    if any(_has_branches(event) for event in described):
        yield (
            "The recording has branch stacks, which are not shown here: perf report --sort "
            "symbol_from,symbol_to shows them."
        )
    if events.runtimes is not None and events.runtimes.left_out:
        yield _names_left_out(events.runtimes)


def _names_left_out(python: RuntimeRecords) -> str:
    """Return a sentence about the names of functions that the recorder had no room for."""
    total = sum(count for _, count in python.left_out)
    image, _ = max(python.left_out, key=lambda one: one[1])
    pids = python.task[python.image == image] & _PID
    whose = f"process {int(pids[0])}" if len(pids) else "one process"
    return (
        f"Functions of runtimes: names that had no room: {total}, most of them of {whose}; these "
        "functions have no names."
    )


def _tracer(event: EventDescription) -> str:
    return next((tracer for tracer in _TRACERS if event.name.startswith(tracer)), "")


def _has_branches(event: EventDescription) -> bool:
    """Return whether samples have branches other than the calls of their stacks, which are read."""
    is_asked = event.attr.sample_type & abi.PERF_SAMPLE_BRANCH_STACK
    is_stack = event.attr.branch_sample_type & abi.PERF_SAMPLE_BRANCH_CALL_STACK
    return bool(is_asked and not is_stack)


_SECOND_NS = 1e9
# With fewer pairs of samples the requested rate is a better estimate.
_FEWEST_PAIRS = 32
_MOST_PAIRS = 1 << 17
_BLOCKS = 16
# A CPU's type of PMU is above the event's own bits (PERF_PMU_TYPE_SHIFT).
_EVENT_BITS = (1 << 32) - 1
_CYCLES = {abi.PERF_COUNT_HW_CPU_CYCLES, abi.PERF_COUNT_HW_REF_CPU_CYCLES}
_CYCLES_NAME = re.compile(r"(?:.*/)?(?:cpu[-_]|ref-)?cycles(?![\w-]).*|cpu_clk_unhalted.*")
_OCCASIONAL_TYPES = {abi.PERF_TYPE_SOFTWARE, abi.PERF_TYPE_TRACEPOINT, abi.PERF_TYPE_BREAKPOINT}


def event_info(
    event: EventDescription, info: RecordingInfo, time: CounterTime | None = None
) -> EventInfo:
    """Return the factors by which an event's periods, or else its hits, become seconds.

    `time` is from the samples, None if there are none.
    """
    attr = event.attr
    rate_hz = float(attr.frequency_hz or 0)
    is_x86 = info.arch.startswith(("x86", "i"))
    is_clock = attr.type == abi.PERF_TYPE_SOFTWARE and attr.config in (
        abi.PERF_COUNT_SW_CPU_CLOCK,
        abi.PERF_COUNT_SW_TASK_CLOCK,
    )
    if is_clock and not rate_hz and attr.sample_period:
        stated_hz = number_of(info.extras.get("frequency_hz"))
        rate_hz = stated_hz if stated_hz >= 1 else 1e9 / attr.sample_period
    # Cycles and similar events count all the time that a CPU runs; faults, switches and
    # tracepoints do not.
    is_steady = is_clock or attr.type not in _OCCASIONAL_TYPES
    clocks = clock_count(info) if is_clock else 1
    found = time if time and not is_clock else CounterTime()
    per_hit = 1.0 / rate_hz if rate_hz and is_steady and not found.periods_vary else 0.0
    stated = _seconds_per_cycle(attr, info)
    if stated and found.relative_error == 1.0:
        found = found._replace(units_per_s=0.0, relative_error=0.0)
    per_unit = 1.0 / found.units_per_s if found.units_per_s > 0 else stated
    return EventInfo(
        name=event.name,
        seconds_per_period=_NS / clocks if is_clock else per_unit,
        seconds_per_hit=per_hit,
        frequency_hz=rate_hz,
        excludes_kernel=bool(attr.flags & abi.FLAG_EXCLUDE_KERNEL),
        clocks=clocks,
        weighs_periods=found.periods_vary,
        relative_error=found.relative_error,
        sample_period=0 if is_clock or attr.frequency_hz else attr.sample_period,
        most_frames=0 if attr.sample_stack_user else attr.most_frames,
        unit_mask=attr.config >> 8 & 0xFF if attr.type == abi.PERF_TYPE_RAW and is_x86 else 0,
    )


def _seconds_per_cycle(attr: EventAttr, info: RecordingInfo) -> float:
    """Return the seconds of a cycle if the recorder measured the CPUs' speed, else 0.0.

    It is used if there are too few samples for `counter_time`.
    """
    is_cycles = (attr.type, attr.config) == (abi.PERF_TYPE_HARDWARE, abi.PERF_COUNT_HW_CPU_CYCLES)
    mhz = number_of(info.extras.get("cpu_mhz"))
    return 1e-6 / mhz if is_cycles and mhz >= 1 else 0.0


class CounterTime(NamedTuple):
    """The relation of an event's periods to time.

    Attributes:
        periods_vary: whether samples represent different amounts, so that hits are no measure.
        units_per_s: the counter's gain in a second of running; 0.0 if it does not measure time.
        relative_error: standard deviation of that over the recording, as a share of it.
    """

    periods_vary: bool = False
    units_per_s: float = 0.0
    relative_error: float = 0.0


def counter_time(
    samples: Samples,
    event_index: int,
    description: EventDescription,
    *,
    by_cpu: bool,
    most_s: float,
) -> CounterTime:
    """Find the relation of the periods of one event's samples to time.

    The kernel begins with a period of 1 and adapts it to the requested rate, so the first samples
    of a recording, possibly thousands, represent next to nothing. A sample represents its period:
    the counter's gain since the previous sample. The ratio of gain and time between two samples of
    one CPU is the CPU's speed if the counter never stopped. Idle CPUs halt the counter, so ratios
    of idle times are low and have few cycles: the median by cycles is the speed of busy CPUs.
    Source: ``kernel/events/core.c`` perf_adjust_period(), __perf_event_account_interrupt(), 6.18.

    Args:
        samples: of all events.
        event_index: the event's row in the recording.
        by_cpu: whether its counters belong to CPUs; else to threads.
        most_s: time of all CPUs together, an upper limit; 0.0 if unknown.
    """
    if samples.period.strides == (0,) or not len(samples):  # a broadcast scalar
        return CounterTime()
    rows = np.flatnonzero(samples.event == event_index)
    period = samples.period.take(rows)
    if not len(period) or period.min() == period.max():
        return CounterTime()
    rate_hz = description.attr.frequency_hz or 0
    if not (rate_hz and counts_cycles(description)):
        return CounterTime(periods_vary=True)
    amount = np.minimum(period, np.uint64(1 << 62)).astype(np.float64)
    least = float(amount.sum()) / most_s if most_s > 0 else 0.0
    owner = samples.cpu if by_cpu else samples.task >> np.uint64(32)
    speed, weight = _speeds(owner.take(rows), samples.time_ns.take(rows), amount)
    if len(speed) < _FEWEST_PAIRS:
        # The rate by the longest periods, assuming that they have the requested rate.
        return CounterTime(True, max(rate_hz * _median(amount, amount), least), 1.0)
    median = _median(speed, weight)
    return CounterTime(True, max(median, least), _spread(speed, weight, median))


def counts_cycles(description: EventDescription) -> bool:
    """Return whether an event counts all the time that a CPU runs."""
    attr = description.attr
    if attr.type == abi.PERF_TYPE_HARDWARE:
        return attr.config & _EVENT_BITS in _CYCLES
    return _CYCLES_NAME.fullmatch(description.name.lower()) is not None


def _speeds(owner: U64 | U16, time_ns: U64, amount: F64) -> tuple[F64, F64]:
    """Return the speed between each two samples of a counter in units a second, and its units."""
    order = np.argsort(owner, kind="stable")
    owner, time, amount = owner.take(order), time_ns.take(order).view(np.int64), amount.take(order)
    follows = (owner[1:] == owner[:-1]) & (time[1:] > time[:-1])
    later = np.flatnonzero(follows) + 1
    later = later[:: max(1, len(later) // _MOST_PAIRS)]
    elapsed_s = (time.take(later) - time.take(later - 1)) / _SECOND_NS
    gained = amount.take(later)
    return gained / elapsed_s, gained


def _median(values: F64, weight: F64) -> float:
    """Return the value below which half of the weight is."""
    order = np.argsort(values)
    running = np.cumsum(weight.take(order))
    if not running[-1] > 0:
        return 0.0
    return float(values[order[np.searchsorted(running, running[-1] / 2.0)]])


def _spread(speed: F64, weight: F64, median: float) -> float:
    """Return the variation of the speed between CPUs and times, as a share of it."""
    if not median > 0:
        return 0.0
    pieces = np.array_split(np.arange(len(speed)), _BLOCKS)
    units = np.array([weight[piece].sum() for piece in pieces])
    medians = np.array([_median(speed[piece], weight[piece]) for piece in pieces])
    variance = float(((medians - median) ** 2 * units).sum() / units.sum())
    return min(float(np.sqrt(variance)) / median, 1.0)
