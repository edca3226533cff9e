"""One table by the keys of --sort: what its rows are sums of, and how they are written."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from builders.pages import report_of
from builders.profile import perf_profile
from builders.profile_builder import ProfileBuilder
from builders.stacks import stacks_profile
from prospect.api.recorded_profile import Profile
from prospect.cli.commands import COMMANDS
from prospect.cli.option_parser import parse
from prospect.errors import UsageError
from prospect.profile.model import CPUMODE_KERNEL, ENTRY_REASON_SYSCALL, KIND_KERNEL
from prospect.records import asdict, replace
from prospect.render.registry import make_renderer
from prospect.render.text.text_report import TextRenderer

REPORT = next(command for command in COMMANDS if command.name == "report")


def family():
    """Two workers of a program in two services, a helper, and somebody else."""
    build = ProfileBuilder()
    image, other_image = build.object("/opt/a/bin/server"), build.object("/opt/b/bin/server")
    kernel = build.object("[kernel.kallsyms]", KIND_KERNEL)
    parse_, same = build.function("parse", image, 0), build.function("parse", other_image, 0)
    read = build.function("copy_to_user", kernel, 1 << 60)
    server = build.process("server", 10, is_command=True)
    worker = build.process("server", 11, is_descendant=True)
    helper = build.process("helper", 12, is_descendant=True)
    build.hit(server, parse_, 20)
    build.hit(worker, same, 30)
    build.hit(worker, read, 8, CPUMODE_KERNEL, entry_reason=(ENTRY_REASON_SYSCALL, "read"))
    build.hit(helper, parse_, 5)
    build.hit(build.process("other", 60), parse_, 500)
    profile = build.build()
    groups = ["/system.slice/a.service", "/system.slice/b.service", "", ""]
    return replace(profile, processes=replace(profile.processes, control_group=groups))


def written(profile, form, keys, **options):
    out = io.BytesIO()
    options = {"user_threshold_s": 0.0, **options}
    make_renderer(form, sort=keys, **options).render(profile, out)
    return out.getvalue().decode()


def rows(profile, *keys, **options):
    found = json.loads(written(profile, "json", keys, **options))["events"][0]["rows"]
    return [(*(row[key] for key in keys), row["samples"]) for row in found]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (("program",), [("server", 58), ("helper", 5)]),
        (("pid",), [(11, 38), (10, 20), (12, 5)]),
        (("function",), [("parse", 30), ("parse", 25), ("copy_to_user", 8)]),
        (("mode",), [("user", 55), ("kernel", 8)]),
        (("reason",), [("(user code)", 55), ("read", 8)]),
        (("service",), [("b.service", 38), ("a.service", 20), (None, 5)]),
        (
            ("mode", "program"),
            [("user", "server", 50), ("kernel", "server", 8), ("user", "helper", 5)],
        ),
        (
            ("object", "program"),
            [
                ("/opt/b/bin/server", "server", 30),
                ("/opt/a/bin/server", "server", 20),
                ("[kernel.kallsyms]", "server", 8),
                ("/opt/a/bin/server", "helper", 5),
            ],
        ),
    ],
)
def test_a_row_is_what_the_keys_have_in_common(keys, expected):
    assert rows(family(), *keys) == expected


def test_a_level_chooses_whose_time_it_is():
    assert rows(family(), "program", detail="2") == [("server", 20)]
    assert rows(family(), "program", detail="4")[0] == ("other", 500)


def test_rows_and_what_is_left_out_are_the_total():
    document = json.loads(written(family(), "json", ("program",), user_threshold_s=0.1))
    (event,) = document["events"]
    assert document["keys"] == ["program"]
    assert [row["program"] for row in event["rows"]] == ["server"]
    assert event["left_out"] == {"rows": 1, "samples": 5, "seconds": 5 / 256}
    assert event["samples"] == 63
    assert event["seconds"] == pytest.approx(63 / 256)


def test_every_hit_of_every_event_is_in_one_row():
    profile = perf_profile()
    for event in json.loads(written(profile, "json", ("object", "function"), detail="4"))["events"]:
        assert sum(row["samples"] for row in event["rows"]) == event["samples"] > 0


def test_a_spreadsheet_has_the_same_rows_and_one_of_the_rest():
    text = written(family(), "csv", ("object", "mode"), user_threshold_s=0.04)
    found = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [(row["object"], row["mode"], row["samples"]) for row in found] == [
        ("/opt/b/bin/server", "user", "30"),
        ("/opt/a/bin/server", "user", "25"),
        ("REMAINDER", "REMAINDER", "8"),
    ]
    assert sum(float(row["percent"]) for row in found) == pytest.approx(100.0)


def test_the_text_says_whose_time_it_is_and_adds_up():
    lines = written(family(), "text", ("object", "function"), user_threshold_s=0.04).splitlines()
    assert lines[1] == "Time by object, function of the process and its descendants"
    assert lines[3].split() == ["Rank", "CPU", "s", "±", "Samples", "Share", "Object", "Function"]
    assert lines[4].split()[-2:] == ["server", "parse"]
    left_out, total = lines[6:8]
    assert left_out == "- Left out by '-m 0.04': 1 row with 0.031 s, 8 samples (12.7%)"
    assert total.startswith("Total: 0.25 ± ")
    assert "63 samples" in total


def test_the_figures_are_those_of_the_report():
    (row,) = json.loads(written(family(), "json", ("pid",), detail="2"))["events"][0]["rows"]
    short = json.loads(report_of(family(), "json", detail="2"))["summary"]
    assert (row["samples"], row["seconds"]) == (short["samples"], short["seconds"])
    assert row["half_width_s"] == pytest.approx(short["half_width_s"])


def test_a_level_that_leaves_nothing_says_what_there_is():
    build = ProfileBuilder()
    image = build.object("/bin/other")
    build.process("true", 1, is_command=True)
    build.hit(build.process("other", 60), build.function("f", image, 0), 5)
    assert "-V 4" in written(build.build(), "text", ("program",))


def test_keys_are_what_perf_calls_them():
    settings, _ = parse(REPORT, ["--sort", "comm,dso,sym,symbol"])
    assert settings.sort == ("comm", "object", "function")


def of_threads():
    """Two threads of one name, and one of another."""
    profile = stacks_profile()
    tid = np.where(np.arange(len(profile.samples)) % 2, 77, 78).astype(np.int32)
    return replace(profile, samples=replace(profile.samples, tid=tid))


def test_tid_is_a_number_comm_a_name_and_thread_has_both():
    profile = of_threads()

    def rows(*keys):
        (event,) = json.loads(written(profile, "json", keys, detail="4"))["events"]
        return {tuple(row[key] for key in keys): row["samples"] for row in event["rows"]}

    by_tid, by_comm, by_thread = rows("tid"), rows("comm"), rows("thread")
    assert set(by_tid) == {(77,), (78,)}
    assert set(by_comm) == {("a b;c",), ("comm",)}
    assert {name[-4:] for (name,) in by_thread} == {"(77)", "(78)"}
    assert sum(by_tid.values()) == sum(by_comm.values()) == sum(by_thread.values())
    assert {tid for _, tid in rows("comm", "tid")} == {77, 78}


def test_without_numbers_threads_have_names_only():
    profile = family()
    assert rows(profile, "thread") == rows(profile, "comm") == [("comm", 63)]
    with pytest.raises(UsageError, match="--sort tid"):
        written(profile, "json", ("tid",))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--sort", "session"], "--sort session needs a store: add --store DIR"),
        (["--sort", "nonsense"], "give some of event, cpu, program, pid, comm"),
        (["--sort", ""], "give some of event, cpu, program, pid, comm"),
        (["--sort", "pid", "-e"], "drop -e"),
        (["--sort", "pid", "--classic"], "drop --classic"),
        (["--sort", "pid", "--format", "svg"], "text, json or csv, not svg"),
    ],
)
def test_what_a_table_cannot_be_is_refused(words, says):
    with pytest.raises(UsageError, match=says):
        parse(REPORT, words)


def test_python_takes_the_keys_too():
    profile = Profile(**asdict(perf_profile()))
    assert "Time by function of every process" in profile.report(sort=["sym"], detail=4)
    with pytest.raises(UsageError, match="give some of event"):
        profile.report(sort=["nonsense"])
    with pytest.raises(UsageError, match="text, json or csv"):
        profile.report(sort=["pid"], format="html")


def test_without_keys_it_is_the_report():
    assert isinstance(make_renderer("text", sort=()), TextRenderer)
