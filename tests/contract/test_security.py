"""SECURITY.md has every bound on untrusted input as the code has it, and names its tests."""

import ast
import functools
import importlib
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "prospect"
TEXT = (ROOT / "SECURITY.md").read_text()
ROWS = re.findall(
    r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| `([\w/.]+\.py):(\w+)` \|$", TEXT, re.MULTILINE
)
# These rooms read nothing that others wrote, or only what another room has bounded.
NO_INPUT = {"analysis", "api", "cli", "columns", "disasm", "estimate", "figures", "render", "tui"}


def shown(name: str, value: float) -> str:
    if not name.endswith("BYTES"):
        return f"{value:,}"
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if value >= size and value % size == 0:
            return f"{value // size:,} {unit}"
    return f"{value:,} bytes"


def test_each_limit_is_the_one_of_the_code():
    assert len(ROWS) > 100
    for _, limit, _, path, name in ROWS:
        module = importlib.import_module("prospect." + path[:-3].replace("/", "."))
        assert limit == shown(name, getattr(module, name)), f"{path}:{name}"


def test_each_bound_in_bytes_has_a_row():
    listed = {(path, name) for _, _, _, path, name in ROWS}
    missing = []
    for file in SOURCE.rglob("*.py"):
        path = str(file.relative_to(SOURCE))
        if path.partition("/")[0] in NO_INPUT:
            continue
        text = file.read_text()
        for node in ast.parse(text).body if "_BYTES" in text else ():
            for target in node.targets if isinstance(node, ast.Assign) else ():
                name = getattr(target, "id", "")
                if re.fullmatch(r"_?(MOST|LARGEST|LONGEST)_(\w+_)?BYTES", name):
                    missing += [f"{path}:{name}"] if (path, name) not in listed else []
    assert not missing


# A bound on untrusted input, or a waiting time. A room that has a module `ROOM_limits` declares all
# of these there, where they can be reviewed together.
BOUND = re.compile(r"_?(MOST|LARGEST|LONGEST|DEEPEST|LATEST)_\w+|_?DEEPEST|\w*_TIMEOUT|\w+_S")
# What these names may be elsewhere, by the reason.
OTHER_FIGURES = {
    "rows and names that an answer or a message shows": {
        "capture/events/vendor_events.py": ("_MOST_NAMES",),
        "fleet/answers.py": ("_MOST_FILES", "_MOST_HOSTS", "_MOST_NAMELESS", "_MOST_PROGRAMS"),
        "fleet/hits.py": ("_MOST_LEADING",),
        "fleet/top_functions.py": ("_MOST_SERVICES",),
        "lines/debug_info.py": ("_MOST_NAMES",),
        "live/chosen.py": ("_MOST_NAMED",),
        "store/choosing.py": ("_MOST_SHOWN",),
        "store/contents.py": ("_MOST_ROWS",),
        "store/measured.py": ("_MOST_NAMED",),
        "store/recorded.py": ("_MOST_SHOWN",),
        "store/segment_reading.py": ("_MOST_NAMED",),
        "web/store_site.py": ("_MOST_BARS",),
        "lines/source_files.py": ("_LONGEST_LINE",),
    },
    "the largest value of a type, or of a sum that stays exact": {
        "assembly/entry_reasons/hit_reasons.py": ("_MOST_LABELS",),
        "assembly/extras.py": ("_LARGEST_I32", "_LARGEST_I64", "_LARGEST_I64_DIGITS"),
        "assembly/labels.py": ("_MOST_STATES",),
        "assembly/placing/placement.py": ("_LATEST_NS",),
        "assembly/runtimes/runtime_stacks.py": ("_MOST_MAKERS",),
        "assembly/tables/clocks.py": ("_LARGEST_I64",),
        "assembly/tables/hit_tables.py": ("_MOST_LOST",),
        "assembly/threads/followed_threads.py": ("_MOST_LABELS",),
        "assembly/threads/waits.py": ("_MOST_EVENTS", "_MOST_NS"),
        "capture/counting/call_counter.py": ("_LARGEST_I64",),
        "capture/python/memory_reader.py": ("_MOST_DELAY_BITS", "_MOST_WALK_NS"),
        "capture/python/memory_walk.py": ("_MOST_COPIES",),
        "capture/python/python_runtime.py": ("MOST_KEYS", "_MOST_COPIES"),
        "capture/runtimes/ruby_runtime.py": ("_MOST_STACK_WORDS",),
        "capture/runtimes/watcher.py": ("_LONGEST_MS",),
        "foreign/folded_profile.py": ("_MOST_COUNT",),
        "foreign/gmon_profile.py": ("_MOST_CALLS", "_MOST_UNITS"),
        "store/specification.py": ("_MOST_COUNT", "_MOST_DIGITS", "_MOST_NUMBER"),
        "symbols/jit/hotspot_code.py": ("_LONGEST_FRAME_WORDS", "_MOST_OCTETS"),
        "symbols/runtime_code.py": ("MOST_LINES", "_MOST_LINE"),
        "target/relay_stream.py": ("_MOST_FRAME_BYTES",),
    },
    "sizes of a format, of the kernel and of CPUs, and what tells a record from other bytes": {
        "capture/compressed_sink.py": ("_MOST_PAYLOAD_BYTES",),
        "capture/events/event_choice.py": ("MOST_PRECISE",),
        "capture/events/recorded_callers.py": ("_MOST_STACK_BYTES",),
        "capture/kernel/bpf_objects.py": ("_MOST_CPUS",),
        "capture/kernel/procfs.py": ("_MOST_CPUS",),
        "capture/machine/container_servers.py": ("_LARGEST_FRAME",),
        "capture/machine/mapped_files.py": ("_LARGEST_INODE",),
        "capture/machine/process_snapshot.py": ("_MOST_INODE_DIGITS",),
        "capture/machine/synthesis.py": ("_LONGEST_NAME",),
        "capture/sink.py": ("_MOST_BUFFERS",),
        "capture/v8/functions.py": ("_MOST_CHARACTERS",),
        "capture/v8/sampled_stacks.py": ("_MOST_OFFSET", "_MOST_TYPE"),
        "capture/v8/v8_runtime.py": ("_MOST_OFFSET",),
        "capture/events/event_parsing.py": ("_MOST_VALUE",),
        "capture/java/vm_tables.py": ("_LARGEST_OFFSET",),
        "assembly/stacks/unwinding.py": ("_MOST_BRANCHES",),
        "assembly/tables/clocks.py": ("_LONGEST_TICK_NS",),
        "events/record_starts.py": ("LARGEST_RECORD_WORDS", "_MOST_TYPES"),
        "perfdata/format.py": ("_LONGEST_NAME",),
        "perfdata/metadata.py": ("_MOST_DIGITS",),
        "perfdata/program_records.py": ("_MOST_NAME", "_MOST_NAMES"),
        "recording/closing_words.py": ("_LONGEST_WORDS",),
    },
    "units of time and lengths of the calendar": {
        "capture/events/clock_bank.py": ("_NS_PER_S",),
        "capture/events/cpu_events.py": ("_NS_PER_S",),
        "capture/events/event_choice.py": ("_NS_PER_S",),
        "capture/loop/attached.py": ("_NS_PER_S",),
        "daemon/senders.py": ("_HOUR_S",),
        "daemon/window_writing.py": ("_HOUR_S",),
        "fleet/kept_days.py": ("DAY_S",),
        "fleet/sending.py": ("_HOUR_S",),
        "store/compaction.py": ("_LENGTH_S",),
        "store/timeline.py": ("_STEPS_S",),
    },
    "how often something is looked at, and what counts as new, late or short": {
        "capture/counting/call_counter.py": ("LONGEST_S", "WINDOW_S", "_SHORTEST_PAUSE_S"),
        "capture/counting/event_counters.py": ("_NO_PIDFD_S",),
        "capture/java/jvm_watcher.py": ("_LATE_S", "_SEARCH_S", "_SOON_S"),
        "capture/machine/containers.py": ("_ASK_AGAIN_S",),
        "capture/machine/jit_file_holder.py": ("_PAUSE_S", "_SWEEP_S"),
        "capture/machine/mapped_file_reader.py": ("_FRESH_S", "_GATHER_S"),
        "capture/machine/runtime_processes.py": ("_IDLE_S", "_LATER_S", "_LONG_S", "_SOON_S"),
        "capture/python/memory_reader.py": ("_LATEST_NS", "_LONGEST_REST_S"),
        "capture/runtimes/first_runtime.py": ("_LONGEST_S",),
        "capture/runtimes/tracers.py": ("WATCHED_S", "_LEAST_BUSY_S"),
        "capture/runtimes/users.py": ("_MAPPINGS_A_S",),
        "capture/runtimes/watcher.py": ("_AGAIN_S", "_COUNTED_S", "_SEARCH_REST_S", "_TRACERS_S"),
        "daemon/loop.py": ("SHORT_S", "_SOON_S"),
        "files/child.py": ("_KILLED_S",),
        "files/opener.py": ("_SAY_S",),
        "fleet/hits.py": ("_LOOK_S",),
        "fleet/keeping.py": ("_LATE_S",),
        "fleet/remote_cache.py": ("_IN_USE_S",),
        "recording/counting_run.py": ("SHORTEST_INTERVAL_S",),
        "recording/opened_events.py": ("_CROWDED_S",),
        "recording/sampling_cost.py": ("_TRIED_S",),
        "symbols/jit/map_files.py": ("_LONGEST_NS",),
        "symbols/servers/downloads.py": ("_PROGRESS_S",),
        "target/agent.py": ("_LOOK_S",),
        "target/sampler.py": ("_TICK_S",),
        "target/target_process.py": ("_LOOK_S",),
    },
    "bounds of a file that runs on its own, or that a target gets without the rest of its room": {
        "symbols/cache_directory.py": ("_LONGEST_WRITING_NS",),
        "symbols/demangling/cxx_names.py": ("_LONGEST_TEXT_BYTES", "_MOST_CHILDREN"),
        "target/joining.py": ("WAIT_S",),
        "target/relay.py": (
            "FILE_S",
            "MOST_ANSWER_BYTES",
            "MOST_NAMES_BYTES",
            "MOST_SECTIONS",
            "TICK_S",
        ),
    },
    "room in a table or an entry of the kernel's map that a BPF program uses": {
        "capture/counting/syscall_counts.py": ("MOST_GROUPS",),
        "capture/runtimes/attaching.py": ("_MOST_RUNTIMES",),
        "capture/runtimes/runtime.py": ("MOST_ADDRESSES", "MOST_WORDS"),
        "capture/v8/v8_runtime.py": ("_MOST_PIECES",),
    },
    "figures of an estimate": {
        "assembly/tables/run_facts.py": ("_MOST_PAIRS",),
        "capture/counting/call_counter.py": ("_MOST_SHARE", "_MOST_WINDOWS_AT_ONCE"),
        "capture/events/clock_bank.py": ("MOST_CLOCKS",),
        "capture/events/event_opening.py": ("_MOST_COUNTS_HZ", "_MOST_SAMPLES_HZ"),
        "capture/events/sample_cost.py": ("_MOST_PAIRS",),
        "capture/runtimes/first_runtime.py": ("_MOST_SHARE",),
        "capture/runtimes/tracers.py": ("MOST_SHARE",),
        "live/carried.py": ("_LATEST_NS",),
        "recording/closing_words.py": ("_MOST_KINDS", "_MOST_WORDS"),
        "live/session.py": ("_MOST_LOST",),
    },
}
EXCEPTED = {
    (path, name)
    for of_reason in OTHER_FIGURES.values()
    for path, names in of_reason.items()
    for name in names
}
LIMITS = {
    path.parent.name: path
    for path in SOURCE.glob("*/*_limits.py")
    if path.stem == f"{path.parent.name}_limits"
}


def assigned(file: Path) -> set[str]:
    """Return the names that a module assigns outside of functions and classes."""
    found: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                found |= {one.id for one in ast.walk(target) if isinstance(one, ast.Name)}
    return found


def test_a_room_declares_its_bounds_in_one_module():
    found = {
        (str(file.relative_to(SOURCE)), name)
        for room, limits in LIMITS.items()
        for file in (SOURCE / room).rglob("*.py")
        if file != limits
        for name in assigned(file)
        if BOUND.fullmatch(name)
    }
    assert len(LIMITS) > 5
    assert found == EXCEPTED


def test_modules_of_bounds_have_nothing_else():
    for file in LIMITS.values():
        for node in ast.parse(file.read_text()).body:
            is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            is_future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
            assert is_docstring or is_future or isinstance(node, ast.Assign), (file.name, node)


def test_each_bound_is_used_and_has_its_reason_above():
    # In how many modules a name is.
    used = Counter(name for path in SOURCE.rglob("*.py") for name in words(path))
    for room, file in LIMITS.items():
        assert not [name for name in assigned(file) if used[name] < 2], room
        for group in file.read_text().partition("annotations\n\n")[2].split("\n\n"):
            assert group.lstrip().startswith("#"), (room, group)


@functools.cache
def words(file: Path) -> frozenset[str]:
    """Return the words of a module."""
    return frozenset(re.findall(r"\w+", file.read_text()))


def test_each_promise_names_a_test():
    promises = TEXT.partition("## What is promised")[2].partition("\n## ")[0]
    for promise in re.split(r"\n- ", promises)[1:]:
        assert re.search(r"`tests/\w+", promise) or "`scripts/fuzz" in promise, promise[:60]
