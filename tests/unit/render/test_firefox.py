"""Call stacks as the Firefox Profiler reads them."""

import json
from collections import Counter, defaultdict

from builders.stack_formats import COUNTS, PROFILES, every_case, rendered
from builders.stacks import TICK_NS, stacks_profile
from prospect.profile.naming import NameSource
from prospect.records import replace


def table_rows(table):
    lengths = {len(column) for name, column in table.items() if isinstance(column, list)}
    assert lengths <= {table["length"]}
    return table["length"]


@every_case
def test_firefox_tables_refer_to_each_other(case):
    file = json.loads(rendered("firefox", PROFILES[case]()))
    assert file["meta"]["preprocessedProfileVersion"] == 70
    categories = len(file["meta"]["categories"])
    assert any(c["color"] == "grey" for c in file["meta"]["categories"])  # the default category
    shared = file["shared"]
    strings, frames = shared["stringArray"], shared["frameTable"]
    sizes = {name: table_rows(table) for name, table in shared.items() if name != "stringArray"}
    assert all(func < sizes["funcTable"] for func in frames["func"])
    assert all(-1 <= lib < len(file["libs"]) for lib in frames["lib"])
    assert all(category < categories for category in frames["category"])
    assert all(name < len(strings) for name in shared["funcTable"]["name"])
    for row, offset in enumerate(shared["stackTable"]["prefixOffset"]):
        assert 0 <= offset <= row
    for symbol in frames["nativeSymbol"]:
        assert symbol is None or symbol < sizes["nativeSymbols"]
    count = 0
    for thread in file["threads"]:
        samples = thread["samples"]
        table_rows(samples)
        assert samples["time"] == sorted(samples["time"])
        assert all((stack or 0) < sizes["stackTable"] for stack in samples["stack"])
        count += sum(samples["weight"] or [1] * samples["length"])
        table_rows(thread["markers"])
        assert all(name < len(strings) for name in thread["markers"]["name"])
    assert count == COUNTS[case]


def test_firefox_has_threads_categories_and_markers():
    file = json.loads(rendered("firefox", stacks_profile()))
    shared, strings = file["shared"], file["shared"]["stringArray"]
    threads = {(t["processName"], t["name"], t["pid"], t["tid"]): t for t in file["threads"]}
    assert set(threads) == {("swapper", "a b;c", "0", 0), ("work", "comm", "77", 77)}
    names = [strings[row] for row in shared["funcTable"]["name"]]
    category = dict(zip(names, shared["frameTable"]["category"], strict=True))
    assert (category["main"], category["vfs_read"], category["default_idle"]) == (0, 1, 2)
    markers = threads["work", "comm", "77", 77]["markers"]
    assert {strings[name] for name in markers["name"]} == {"system call: read"}
    stack = shared["stackTable"]
    found = Counter()
    first, *leaves = threads["work", "comm", "77", 77]["samples"]["stack"]
    assert first is None
    for leaf in leaves:
        path, row = [], leaf
        while True:
            path.insert(0, names[stack["frame"][row]])
            if not stack["prefixOffset"][row]:
                break
            row -= stack["prefixOffset"][row]
        found[tuple(path)] += 1
    assert found["main", "work", "work", "work"] == 3
    assert found["main", "read", "do_syscall_64", "vfs_read"] == 6


def test_firefox_has_the_cpu_time_of_each_sample():
    file = json.loads(rendered("firefox", stacks_profile()))
    assert file["meta"]["sampleUnits"]["threadCPUDelta"] == "ns"
    for thread in file["threads"]:
        samples = thread["samples"]
        # The profiler leaves out that of the first: it has no stack and no weight.
        assert samples["threadCPUDelta"] == [0] + [TICK_NS] * (samples["length"] - 1)
        assert (samples["stack"][0], samples["weight"][0]) == (None, 0)
        assert samples["time"][1] - samples["time"][0] == TICK_NS / 1e6
        assert sum(samples["weight"]) == samples["length"] - 1
    events = (replace(stacks_profile().run.events[0], is_waiting=True),)
    waiting = stacks_profile()
    waiting = replace(waiting, run=replace(waiting.run, events=events))
    file = json.loads(rendered("firefox", waiting))
    assert all("threadCPUDelta" not in thread["samples"] for thread in file["threads"])


def test_firefox_has_the_line_of_each_frame():
    file = json.loads(rendered("firefox", stacks_profile(lines=True)))
    shared = file["shared"]
    names = [shared["stringArray"][row] for row in shared["funcTable"]["name"]]
    lines = defaultdict(set)
    for func, line in zip(shared["frameTable"]["func"], shared["frameTable"]["line"], strict=True):
        lines[names[func]].add(line)
    assert (lines["main"], lines["work"], lines["inlined<int>"]) == ({10}, {20}, {30})
    assert lines["vfs_read"] == {None}


def test_java_has_its_category_and_frame_type():
    profile = stacks_profile()
    source = profile.objects.source.copy()
    main = profile.functions.object_index[list(profile.functions.name).index("main")]
    source[main] = NameSource.JVM
    java = replace(profile, objects=replace(profile.objects, source=source))
    file = json.loads(rendered("firefox", java))
    shared, strings = file["shared"], file["shared"]["stringArray"]
    names = [strings[row] for row in shared["funcTable"]["name"]]
    category = dict(zip(names, shared["frameTable"]["category"], strict=True))
    assert file["meta"]["categories"][category["main"]]["name"] == "Java"
    assert category["vfs_read"] == 1
    assert b"jvm" in rendered("otlp", java)
    assert b"jvm" not in rendered("otlp", profile)
