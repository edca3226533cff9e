"""Profiles in memory: the cases that tests share."""

from __future__ import annotations

from typing import Any

import numpy as np

from builders.profile_builder import (
    ProfileBuilder,
    run_info,
)
from prospect.profile.model import (
    BIRTH_EXEC,
    BIRTH_FORK,
    CPUMODE_KERNEL,
    CPUMODE_USER,
    ENTRY_REASON_EXCEPTION,
    ENTRY_REASON_IDLE,
    ENTRY_REASON_INTERRUPT,
    ENTRY_REASON_KERNEL_THREAD,
    ENTRY_REASON_SOFTIRQ,
    ENTRY_REASON_SYSCALL,
    ENTRY_REASON_UNCLASSIFIED,
    KIND_ANON,
    KIND_KERNEL,
    KIND_MODULE,
    HitTable,
    Profile,
)
from prospect.profile.naming import NameSource
from prospect.profile.run_info import EventInfo, RunInfo
from prospect.records import replace


def empty_profile(**facts: Any) -> Profile:
    """A recording without a single record."""
    return ProfileBuilder(run_info(**facts)).build()


def qsort_profile(**facts: Any) -> Profile:
    """The run that Prospect's talk of 2002 walks through, hit for hit."""
    build = ProfileBuilder(replace(_qsort_run(), **facts))
    swapper = build.process("swapper", 0, parent_pid=0, group_pid=0, session_pid=0)
    kthread = build.process("ksoftirqd/0", 3, parent_pid=2, is_kernel_thread=True)
    shell = build.process("bash", 823, parent_pid=800, group_pid=823, session_pid=823)
    recorder = build.process(
        "prospect", 1212, parent_pid=823, parent_index=shell, birth=BIRTH_FORK, is_recorder=True
    )
    child = build.process(
        "prospect", 1213, parent_pid=1212, parent_index=recorder, birth=BIRTH_FORK, end_ns=10
    )
    qsort = build.process(
        "qsort",
        1213,
        parent_pid=1212,
        group_pid=1212,
        session_pid=823,
        parent_index=child,
        birth=BIRTH_EXEC,
        start_ns=10,
        end_ns=3_900_000_000,
        is_command=True,
    )
    program = build.object("/home/hp/bench/qsort", build_id="00ff")
    libc = build.object("/lib/libc-2.2.5.so", source=NameSource.BRACKET, note="no .symtab")
    kernel = build.object("[kernel.kallsyms]", KIND_KERNEL, source=NameSource.KALLSYMS)
    module = build.object("[e1000e]", KIND_MODULE, source=NameSource.KALLSYMS)
    bracket = {"source": NameSource.BRACKET}
    for name, where, address, count, extra in (
        ("my_compare", program, 0x80484F0, 145, {"is_global": False}),
        ("bsearch->qsort", libc, 0x2DCE0, 138, bracket),
        ("memcpy->strsep", libc, 0x78170, 78, bracket),
        ("random->srandom_r", libc, 0x2F5B8, 7, bracket),
        ("main", program, 0x8048524, 6, {"aliases": ("_main",)}),
        ("rand", libc, 0x2F4B0, 5, {"source": NameSource.DYNSYM}),
        ("", program, 0x8048300, 5, {"source": NameSource.NO_COVER, "is_global": False}),
    ):
        build.hit(qsort, build.function(name, where, address, **extra), count)
    kallsyms = {"source": NameSource.KALLSYMS}
    page = build.function("do_anonymous_page", kernel, 0xFFFFFFFF81122088, **kallsyms)
    idle = build.function("default_idle", kernel, 0xFFFFFFFF81006E10, **kallsyms)
    other = build.function("schedule", kernel, 0xFFFFFFFF81017D40, **kallsyms)
    interrupt = build.function("e1000_intr", module, 0xFFFFFFFFC0301000, **kallsyms)
    build.hit(qsort, page, 4, CPUMODE_KERNEL, offset=8)
    build.hit(qsort, page, 2, CPUMODE_KERNEL, offset=12)
    build.hit(qsort, interrupt, 1, CPUMODE_KERNEL)
    build.hit(swapper, idle, 608, CPUMODE_KERNEL, offset=0x20)
    build.hit(swapper, other, 3, CPUMODE_KERNEL)
    build.hit(kthread, other, 2, CPUMODE_KERNEL)
    build.hit(shell, other, 2, CPUMODE_KERNEL)
    build.hit(shell, build.function("execute_command", program, 0x8050000), 5)
    build.hit(recorder, build.function("read_loop", program, 0x8060000), 3)
    build.mapping(qsort, program, 0x8048000, 0x2000, hits=156)
    build.mapping(qsort, libc, 0x40020000, 0x11A000, hits=228)
    build.losses += [(0, 0, 0)]
    return build.build()


def _qsort_run() -> RunInfo:
    return run_info(
        command=("qsort",),
        recorder_command_line=("prospect", "-fout.1", "-m0.02", "qsort"),
        wall_seconds=1014 / 256,
        statistics={
            "buffers_read": 3,
            "buffer_flushes": 4,
            "notifications": 5,
            "execs": 1,
            "forks": 1,
            "maps": 3,
            "incomplete_maps": 0,
            "exits": 1,
            "unknowns": 0,
            "samples": 1014,
        },
        accounting={
            "user_s": 1.53,
            "nice_s": 0.0,
            "system_s": 0.05,
            "idle_s": 2.38,
            "iowait_s": 0.0,
            "irq_s": 0.0,
            "softirq_s": 0.01,
            "steal_s": 0.0,
            "command_user_s": 1.49,
            "command_system_s": 0.03,
        },
    )


def interrupted_profile(**facts: Any) -> Profile:
    """The experiment of Prospect's paper: a program that only computes, beside a network load."""
    run = run_info(
        command=("cpuspin",),
        recorder_command_line=("prospect", "cpuspin"),
        wall_seconds=2000 / 256,
        accounting={
            "user_s": 1.97,
            "nice_s": 0.0,
            "system_s": 1.52,
            "idle_s": 2.35,
            "iowait_s": 0.0,
            "irq_s": 0.0,
            "softirq_s": 1.95,
            "command_user_s": 1.95,
            "command_system_s": 1.86,
        },
    )
    build = ProfileBuilder(replace(run, **facts))
    swapper = build.process("swapper", 0, parent_pid=0)
    ksoftirqd = build.process("ksoftirqd/0", 3, parent_pid=2, is_kernel_thread=True)
    kworker = build.process("kworker/0:1", 9, parent_pid=2, is_kernel_thread=True)
    spin = build.process("cpuspin", 77, parent_pid=70, birth=BIRTH_EXEC, is_command=True)
    sender = build.process("sender", 78, parent_pid=70, birth=BIRTH_EXEC)
    program = build.object("/home/hp/bench/cpuspin")
    kernel = build.object("[kernel.kallsyms]", KIND_KERNEL, source=NameSource.KALLSYMS)
    module = build.object("[e1000e]", KIND_MODULE, source=NameSource.KALLSYMS)
    names = {
        name: build.function(name, module if name == "e1000_intr" else kernel, address, **extra)
        for address, name in enumerate(
            ("e1000_intr", "net_rx_action", "tcp_v4_rcv", "hrtimer_interrupt", "clear_page"),
            start=0xFFFFFFFF81000000,
        )
        for extra in ({"source": NameSource.KALLSYMS},)
    }
    for name in ("tcp_sendmsg", "do_syscall_64", "default_idle", "process_one_work"):
        address = 0xFFFFFFFF82000000 + 0x100 * len(names)
        names[name] = build.function(name, kernel, address, source=NameSource.KALLSYMS)
    build.hit(spin, build.function("main", program, 0x401000), 500)
    for process, name, count, entry_reason in (
        (spin, "clear_page", 6, (ENTRY_REASON_EXCEPTION, "page fault")),
        (spin, "do_syscall_64", 7, (ENTRY_REASON_SYSCALL, "write")),
        (spin, "do_syscall_64", 2, (ENTRY_REASON_SYSCALL, "(entry and exit)")),
        (spin, "tcp_v4_rcv", 350, (ENTRY_REASON_SOFTIRQ, "NET_RX")),
        (spin, "net_rx_action", 60, (ENTRY_REASON_SOFTIRQ, "NET_RX")),
        (spin, "e1000_intr", 40, (ENTRY_REASON_INTERRUPT, "e1000_intr")),
        (spin, "hrtimer_interrupt", 11, (ENTRY_REASON_INTERRUPT, "local timer")),
        (sender, "tcp_sendmsg", 310, (ENTRY_REASON_SYSCALL, "sendto")),
        (sender, "tcp_v4_rcv", 20, (ENTRY_REASON_SOFTIRQ, "NET_RX")),
        (sender, "tcp_sendmsg", 1, (ENTRY_REASON_UNCLASSIFIED, "")),
        (ksoftirqd, "tcp_v4_rcv", 49, (ENTRY_REASON_SOFTIRQ, "NET_RX")),
        (kworker, "process_one_work", 9, (ENTRY_REASON_KERNEL_THREAD, "kworker")),
        (swapper, "default_idle", 600, (ENTRY_REASON_IDLE, "")),
        (swapper, "e1000_intr", 35, (ENTRY_REASON_INTERRUPT, "e1000_intr")),
    ):
        build.hit(process, names[name], count, CPUMODE_KERNEL, entry_reason=entry_reason)
    return build.build()


def hostile_profile() -> Profile:
    """Names that try to break out of their cell, their line, their terminal or their format."""
    run = run_info(
        command=("run\x1b[2J", "a b", "x\udcff"),
        recorder_command_line=("prospect", "run\n"),
        uname="Linux \x1b]0;pwned\x07",
        limits=("No \u202eevil\u202c samples.",),
        damage=("cut at\noffset 3",),
        accounting={"user_s": float("nan"), "command_user_s": "12", "nested": {"a": 1}},
    )
    build = ProfileBuilder(run)
    evil = build.object("/tmp/a\nb\x1b[31m\udcfe.so", note='"quoted", note')
    gone = build.object("//anon", KIND_ANON, source=NameSource.NO_ANONYMOUS)
    wide = "std::map<std::string, int>::" * 20 + "find(char const*)"
    for pid, name in enumerate(
        (
            "=1+1",
            "\x1b[31mred",
            "line\nbreak",
            "日本語プロセス",
            "e\u0301\u0301",
            "\udcff\udcfe",
            "",
        ),
        start=100,
    ):
        process = build.process(name, pid, is_command=True, birth=BIRTH_EXEC)
        for address, symbol in enumerate(("@SUM(A1)", wide, "\u202eabc", '"', "関数", "f\udc80")):
            function = build.function(symbol, evil, 0x1000 + 0x100 * address)
            build.hit(process, function, 40 - address)
        nameless = build.function("", gone, 0x7F00DEAD0000, source=NameSource.NO_ANONYMOUS)
        build.hit(process, nameless, 9)
        build.mapping(process, evil, 0x1000, 0x1000, hits=200)
    return build.build()


def perf_profile() -> Profile:
    """A recording by `perf record -e cycles -e page-faults`: two events, no word on the command."""
    events = (EventInfo("cycles", 0.0, 1 / 4000, 4000.0), EventInfo("page-faults", 0.0, 0.0, 0.0))
    build = ProfileBuilder(
        run_info(
            events=events,
            recorder="perf 6.1",
            recorder_command_line=("perf", "record", "-e", "cycles", "-e", "page-faults", "make"),
            system_wide=False,
            started_at=0.0,
            cpu_mhz=0.0,
            uname="",
            cpus=4,
        )
    )
    make = build.process("make", 50, parent_pid=49, birth=BIRTH_EXEC, end_ns=9)
    cc = build.process("cc1", 51, parent_pid=50, parent_index=make, birth=BIRTH_FORK, end_ns=8)
    program = build.object("/usr/bin/cc1")
    parse = build.function("c_parse_file", program, 0x401000)
    fold = build.function("fold_binary", program, 0x402000)
    build.hit(cc, parse, 3000, period=9_000_000_000)
    build.hit(cc, fold, 1000, period=3_000_000_000)
    build.hit(make, fold, 10, mode=CPUMODE_KERNEL, period=30_000_000)
    build.hit(cc, parse, 7, event=1, period=7)
    build.hit(cc, fold, 8, event=1, period=8)
    build.hit(make, fold, 5, mode=5, event=1, period=5)
    return build.build()


def rowless_profile() -> Profile:
    """Hits without a process, a place, or a mode: the -1 of every table."""
    build = ProfileBuilder(run_info(events=()))
    process = build.process("a", 7, is_command=True)
    orphan = build.function("f", -1, 0x10)
    for row, function, mode in (
        (-1, orphan, 1),
        (process, -1, 2),
        (-1, -1, 0),
        (process, orphan, 3),
    ):
        build.hits.append((row, -1 if function < 0 else 0, mode, 0, 3, 3))
    build.locations[orphan, 0x10] = 0
    build.mapping(process, -1, 0, 16, hits=3)
    return build.build()


def huge_profile(process_count: int, function_count: int, seed: int = 1) -> Profile:
    """Many processes that share many functions; every process has some of each."""
    random = np.random.default_rng(seed)
    build = ProfileBuilder(run_info(cpus=64, wall_seconds=600.0))
    kernel = build.object("[kernel.kallsyms]", KIND_KERNEL)
    library = build.object("/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30")
    for row in range(2000):
        build.function(f"namespace_{row % 50}::function_number_{row}(int)", library, 64 * row)
    for row in range(2000):
        build.function(f"kernel_function_{row}", kernel, 0xFFFFFFFF81000000 + 64 * row)
    for row in range(process_count):
        build.process(f"process-{row}", 1000 + row, parent_index=row - 1, birth=BIRTH_FORK)
        build.mapping(row, library, 0x7F0000000000, 0x200000, hits=10)
    for function in range(4000):
        build.locations[function, build.functions[function]["address"]] = function
    profile = build.build()
    process = np.repeat(np.arange(process_count, dtype=np.int32), function_count // process_count)
    location = random.integers(0, 4000, len(process), dtype=np.int32)
    count = random.integers(20, 60, len(process), dtype=np.int64)
    mode = np.where(location < 2000, CPUMODE_USER, CPUMODE_KERNEL).astype(np.uint8)
    hits = HitTable(
        process_index=process,
        comm_index=np.zeros(len(process), np.int32),
        location_index=location,
        mode=mode,
        event=np.zeros(len(process), np.uint8),
        entry_reason_index=np.zeros(len(process), np.int32),
        count=count,
        period=count * 3_906_250,
    )
    return replace(profile, hits=hits)
