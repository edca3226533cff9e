"""The findings of `prospect doctor`: what this user can profile here, why, and how to enable more.

A `Diagnosis` follows from `Facts` only, which `gather` collects from the kernel and /proc. The
rules are the kernel's: ``perf_event_paranoid`` and ``kptr_restrict`` in
``Documentation/admin-guide/sysctl/kernel.rst``, capabilities(7), perf_event_open(2).
"""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING

from prospect.abi import constants as abi
from prospect.announcing import pluralize
from prospect.capture.events.clock_bank import MOST_CLOCKS, clock_periods_ns
from prospect.capture.events.cpu_events import files_needed
from prospect.capture.events.event_choice import CLOCK_HARDWARE, SCOPE_SYSTEM, choose_events
from prospect.capture.events.recorded_callers import MODES, parse_call_graph
from prospect.capture.kernel.procfs import CpuWatch, read_if_there, read_setting
from prospect.capture.machine.surroundings import counters_are_nmis
from prospect.capture.runtimes import process_memory
from prospect.capture.runtimes.attaching import NEEDS_RIGHTS, obstacle
from prospect.capture.runtimes.tracers import has_tracers
from prospect.errors import CaptureError, UsageError
from prospect.recording.opened_events import RecordOptions, filter_obstacle
from prospect.records import Record

if TYPE_CHECKING:
    from prospect.capture.events.event_choice import EventPlan

OK = "ok"
NOTE = "note"  # needs no action
LIMITED = "limited"
FAILS = "fails"
STATES = (OK, NOTE, LIMITED, FAILS)

STATUS_FINE = 0
STATUS_LIMITED = 1
STATUS_NOTHING = 2

# The tries use the defaults of a recording.
_DEFAULTS = RecordOptions(command=())
_WANTED_HZ = 1000
_RUNTIMES = "functions of runtimes"
# include/uapi/linux/capability.h
_CAP_SYS_PTRACE = 19
_SETTINGS = "sudo sysctl kernel.perf_event_paranoid=0 kernel.kptr_restrict=0"
_CONTAINER = "start the container with: " + " ".join(
    f"--cap-add {name}" for name in ("PERFMON", "BPF", "SYSLOG", "SYS_PTRACE")
)


class Facts(Record):
    """The machine's facts; None if unknown.

    Attributes:
        plan: the events that recording would use, None if the kernel refuses all.
        refusal: the reason of the refusal.
        paranoid: kernel.perf_event_paranoid.
        max_sample_rate_hz: kernel.perf_event_max_sample_rate.
        ring_kib: kernel.perf_event_mlock_kb, which a user may lock for each CPU's ring.
        sees_kernel_symbols: whether /proc/kallsyms shows addresses.
        sees_all_processes: whether mappings of other users' processes can be read.
        container: the container in which this runs, "" if none is detected.
        is_filtered: whether a seccomp filter checks this process's system calls.
        open_files: the hard limit.
        call_graphs: the possible modes of ``--call-graph``.
        has_nmis: whether hardware counters interrupt code that runs with interrupts off.
        no_python: why eBPF cannot read functions of runtimes, "" if it can.
        no_choice: why stacks cannot be recorded of some processes only, "" if they can.
        no_memory: why functions of runtimes cannot be read from memory either, "" if they can.
        only_started: whether this can read the memory only of processes that Prospect starts.
        has_tracers: whether another tracer's BPF programs are loaded.
    """

    user_id: int
    uname: str
    cpus: int
    plan: EventPlan | None
    refusal: str
    paranoid: int | None
    max_sample_rate_hz: int | None
    ring_kib: int | None
    sees_kernel_symbols: bool
    sees_all_processes: bool
    container: str
    is_filtered: bool
    open_files: int
    call_graphs: tuple[str, ...] = ()
    has_nmis: bool = True
    no_python: str = ""
    no_choice: str = ""
    no_memory: str = ""
    only_started: bool = False
    has_tracers: bool = False


class Check(Record):
    """One line of the table: `state` is OK, NOTE, LIMITED or FAILS; `finding` is a sentence."""

    name: str
    state: str
    finding: str


class Diagnosis(Record):
    """The table, its conclusion (`status`, STATUS_*), and a `remedy`, "" for none.

    `machine` describes the machine and the user in words.
    """

    machine: str
    checks: tuple[Check, ...]
    status: int
    summary: str
    remedy: str


def examine() -> Diagnosis:
    """Examine this machine, as this user."""
    return diagnose(gather())


def gather() -> Facts:
    """Try the steps of a recording, and read facts that explain the results."""
    plan, refusal = None, ""
    cpus: tuple[int, ...] = ()
    try:
        watch = CpuWatch()
        cpus = watch.online
        watch.close()
        periods_ns = clock_periods_ns(_DEFAULTS.frequency_hz, MOST_CLOCKS)
        plan = choose_events(_DEFAULTS.frequency_hz, periods_ns, os.getpid(), cpus[0])
    except CaptureError as error:
        refusal = str(error)
    kernel = os.uname()
    status = read_if_there("/proc/self/status")
    return Facts(
        user_id=os.geteuid(),
        uname=f"{kernel.nodename}, {kernel.sysname} {kernel.release} {kernel.machine}",
        cpus=len(cpus),
        plan=plan,
        refusal=refusal,
        paranoid=read_setting("/proc/sys/kernel/perf_event_paranoid"),
        max_sample_rate_hz=read_setting("/proc/sys/kernel/perf_event_max_sample_rate"),
        ring_kib=read_setting("/proc/sys/kernel/perf_event_mlock_kb"),
        sees_kernel_symbols=_sees_kernel_symbols(),
        sees_all_processes=_has_capability(status, _CAP_SYS_PTRACE),
        container=_container(),
        is_filtered=b"\nSeccomp:\t2" in status,
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        call_graphs=_possible_call_graphs(cpus[0]) if plan else (),
        has_nmis=counters_are_nmis(kernel.machine, read_if_there("/proc/cmdline")),
        no_python=obstacle(),
        no_choice=filter_obstacle(),
        no_memory=process_memory.obstacle(),
        only_started=process_memory.reads_descendants_only(),
        has_tracers=has_tracers(),
    )


def diagnose(facts: Facts) -> Diagnosis:
    """Judge the facts, without asking the machine."""
    if facts.plan is None:
        checks = (Check("events", FAILS, facts.refusal), *_surroundings(facts))
    else:
        checks = (
            Check("events", OK, "perf_event_open(2) works"),
            *_view_checks(facts, facts.plan),
            *_surroundings(facts),
        )
    states = {check.state for check in checks}
    if FAILS in states:
        status, summary = STATUS_NOTHING, "Nothing can be profiled here by this user."
    elif LIMITED in states:
        what = ", ".join(check.name for check in checks if check.state == LIMITED)
        status, summary = STATUS_LIMITED, f"Profiling works, with limits: {what}."
    else:
        status, summary = STATUS_FINE, "Everything can be profiled here by this user."
    machine = f"{facts.uname}, {pluralize(facts.cpus, 'CPU')}, user {facts.user_id}"
    return Diagnosis(machine, checks, status, summary, _remedy(facts, checks) if status else "")


def _view_checks(facts: Facts, plan: EventPlan) -> tuple[Check, ...]:
    if plan.scope == SCOPE_SYSTEM:
        processes = Check("processes", OK, "every process on the system (-V 4)")
    else:
        processes = Check("processes", LIMITED, "only COMMAND and its descendants (-V 2, -V 3)")
    if plan.attr.flags & abi.FLAG_EXCLUDE_KERNEL:
        kernel = Check("kernel time", LIMITED, "not sampled: user space only")
    else:
        chains = (
            " with its entry reasons"
            if plan.has_chains
            else " without its entry reasons (no call chains)"
        )
        kernel = Check("kernel time", OK, f"sampled{chains}")
    if facts.sees_kernel_symbols:
        names = Check("kernel names", OK, "/proc/kallsyms shows addresses")
    else:
        state = NOTE if kernel.state == LIMITED else LIMITED
        names = Check("kernel names", state, "/proc/kallsyms hides its addresses")
    if facts.sees_all_processes:
        others = Check("other users", OK, "files of their processes are readable")
    else:
        state = LIMITED if processes.state == OK else NOTE
        others = Check("other users", state, "mappings of their running processes are hidden")
    if plan.clock == CLOCK_HARDWARE:
        clock = Check(
            "clock",
            OK,
            "timers; also a hardware counter (--clocks 0)"
            + (", which samples code with interrupts off" if facts.has_nmis else ""),
        )
    else:
        clock = Check(
            "clock",
            NOTE,
            "timers, no hardware counter (usual in a virtual machine): time with interrupts off is "
            "charged to the instruction that re-enables them",
        )
    callers = _call_graph_check(facts.call_graphs)
    stacks, runtimes = _stacks_check(facts, plan), _runtimes_check(facts, plan)
    return processes, kernel, names, others, clock, callers, stacks, runtimes


def _stacks_check(facts: Facts, plan: EventPlan) -> Check:
    if plan.scope != SCOPE_SYSTEM:
        return Check("stacks", OK, "of COMMAND or -p, and their descendants")
    if facts.no_choice:
        return Check("stacks", NOTE, f"of every process: {facts.no_choice}")
    found = "of COMMAND or -p, and their descendants; with -V 4 of every process"
    return Check("stacks", OK, found)


def _runtimes_check(facts: Facts, plan: EventPlan) -> Check:
    """Return a check of the ways to read runtimes; a limit of the kernel itself is a note."""
    reason = facts.no_python
    if not reason and plan.scope != SCOPE_SYSTEM:
        reason = "only if every process is sampled"
    if not reason:
        beside = "; another tracer's programs may cost samples" if facts.has_tracers else ""
        return Check(_RUNTIMES, OK, f"of CPython, Ruby, PHP and Node, by eBPF{beside}")
    needs_rights = facts.no_python in ("", NEEDS_RIGHTS)
    state = LIMITED if needs_rights else NOTE
    if facts.no_memory:
        return Check(_RUNTIMES, state, f"not read: {facts.no_memory}; by eBPF: {reason}")
    whose = "programs that Prospect starts" if facts.only_started else "your own processes"
    found = f"of CPython, Ruby, PHP and Node, of {whose}, from memory; by eBPF: {reason}"
    return Check(_RUNTIMES, state, found)


def _surroundings(facts: Facts) -> tuple[Check, ...]:
    """Return checks of other bounds on a recording."""
    rate = Check("rate", NOTE, "unknown kernel limit")
    if (limit_hz := facts.max_sample_rate_hz) is not None:
        state = OK if limit_hz >= _WANTED_HZ else LIMITED
        rate = Check("rate", state, f"up to {limit_hz} samples a second (-H)")
    needed = files_needed(facts.cpus)
    files = Check("open files", FAILS, f"{needed} needed, only {facts.open_files} allowed")
    if facts.open_files == resource.RLIM_INFINITY or facts.open_files >= needed:
        files = Check("open files", OK, f"{needed} needed, {facts.open_files} allowed")
    checks = [
        Check("paranoid", NOTE, f"kernel.perf_event_paranoid is {facts.paranoid}"),
        rate,
        files,
    ]
    if facts.ring_kib is not None:
        ring = f"{facts.ring_kib} KiB a CPU without privilege"
        checks.append(Check("buffers", NOTE, f"{ring} (kernel.perf_event_mlock_kb)"))
    if facts.container or facts.is_filtered:
        inside = f"inside {facts.container}" if facts.container else "no container detected"
        seccomp = "a seccomp filter restricts system calls" if facts.is_filtered else "no filter"
        checks.append(Check("container", NOTE, f"{inside}; {seccomp}"))
    return tuple(checks)


def _remedy(facts: Facts, checks: tuple[Check, ...]) -> str:
    """Return the one command that helps most."""
    wrong = {check.name for check in checks if check.state in (LIMITED, FAILS)}
    if "open files" in wrong:
        return f"ulimit -Hn {files_needed(facts.cpus)}  (as root, in the shell that runs prospect)"
    if wrong == {"rate"}:
        return f"sudo sysctl kernel.perf_event_max_sample_rate={_WANTED_HZ}"
    # Images also have marks of a container: only root's limits are certain to be the container's.
    if facts.user_id == 0 or facts.is_filtered:
        return _CONTAINER
    if wrong <= {"other users", _RUNTIMES}:
        return "run prospect as root"
    return f"{_SETTINGS}  (or run prospect as root)"


def _call_graph_check(modes: tuple[str, ...]) -> Check:
    missing = ", ".join(mode for mode in MODES if mode not in modes)
    without = f", not by {missing}" if missing else ""
    if not modes:
        return Check("call graphs", LIMITED, "no callers in user space can be recorded")
    return Check("call graphs", OK, f"by {', '.join(modes)} (--call-graph){without}")


def _possible_call_graphs(cpu: int) -> tuple[str, ...]:
    """Return the modes by which events with callers in user space can be opened."""
    periods_ns = clock_periods_ns(_DEFAULTS.frequency_hz, MOST_CLOCKS)
    found = []
    for mode in MODES:
        graph = parse_call_graph(mode)
        try:
            plan = choose_events(
                *(_DEFAULTS.frequency_hz, periods_ns, os.getpid(), cpu), call_graph=graph
            )
        except (CaptureError, UsageError):
            continue
        if not graph.stack_bytes or plan.attr.sample_type & abi.PERF_SAMPLE_STACK_USER:
            found.append(mode)
    return tuple(found)


def _sees_kernel_symbols() -> bool:
    start = read_if_there("/proc/kallsyms", 1 << 12)
    return any(line[:16].strip(b"0 ") for line in start.splitlines()[:-1])


def _has_capability(status: bytes, capability: int) -> bool:
    _, found, rest = status.partition(b"\nCapEff:\t")
    return bool(found) and int(rest.split(b"\n", 1)[0], 16) >> capability & 1 == 1


def _container() -> str:
    """Return the name of the container, by the marks of its runtime."""
    named = read_if_there("/run/systemd/container").decode(errors="replace").strip()
    if named:
        return named
    for mark, name in (("/.dockerenv", "Docker"), ("/run/.containerenv", "Podman")):
        if os.access(mark, os.F_OK):
            return name
    whole = b"4294967295"
    return "" if whole in read_if_there("/proc/self/uid_map") else "a user namespace"
