"""The report in short: what its rows are sums of, what is left out, who called, how it is shown."""

from __future__ import annotations

import io

import numpy as np
import pytest

from builders.profile import qsort_profile
from builders.profile_builder import ProfileBuilder
from builders.stacks import profile_of_stacks, stacks_profile
from prospect.estimate.finished_report import Report
from prospect.estimate.summary import summary
from prospect.profile.model import (
    CPUMODE_KERNEL,
    ENTRY_REASON_EXCEPTION,
    ENTRY_REASON_SYSCALL,
    KIND_KERNEL,
    LossTable,
)
from prospect.records import replace
from prospect.render.escape import display_width
from prospect.render.text.text_report import TextRenderer
from prospect.store.recorded import part_of_recording
from prospect.store.specification import parse_specifications


def short_of(profile, detail="3"):
    return summary(Report(profile, detail).events[0])


def first_screen(profile, detail="3", recording=""):
    out = io.BytesIO()
    TextRenderer(detail, recording=recording).render(profile, out)
    lines = out.getvalue().decode().splitlines()
    end = next(at for at, line in enumerate(lines) if line.startswith(("-----", "Note:")))
    return lines[: end - 1]


def family():
    """A server that forks workers, Prospect, an idle CPU, and somebody else."""
    build = ProfileBuilder()
    image = build.object("/bin/server")
    kernel = build.object("[kernel.kallsyms]", KIND_KERNEL)
    serve, parse = build.function("serve", image, 0), build.function("parse", image, 64)
    clear = build.function("clear_page", kernel, 1 << 60)
    idle = build.function("default_idle", kernel, 2 << 60)
    server = build.process("server", 10, is_command=True)
    workers = [build.process("server", pid, is_descendant=True) for pid in range(11, 41)]
    helper = build.process("helper", 50, is_descendant=True)
    other = build.process("other", 60)
    recorder = build.process("prospect", 70, is_recorder=True, is_descendant=True)
    build.hit(server, serve, 2)
    for worker in workers:
        build.hit(worker, parse, 5)
        build.hit(
            worker, clear, 1, CPUMODE_KERNEL, entry_reason=(ENTRY_REASON_EXCEPTION, "page fault")
        )
    build.hit(helper, parse, 3)
    build.hit(helper, clear, 4, CPUMODE_KERNEL, entry_reason=(ENTRY_REASON_SYSCALL, "read"))
    build.hit(other, serve, 500)
    build.hit(recorder, serve, 400)
    build.hit(build.process("swapper", 0), idle, 900, CPUMODE_KERNEL)
    return build.build()


def machine(lost=0, **run):
    """The same on two CPUs, as a recording of the whole system; some samples were lost."""
    profile = family()
    losses = LossTable(np.zeros(1, np.int32), np.array([lost]), np.zeros(1, np.int64))
    facts = {"cpus": 2, "wall_seconds": (1989 + lost) / 256 / 2, "system_wide": True, **run}
    return replace(profile, run=replace(profile.run, **facts), losses=losses)


@pytest.mark.parametrize("word", ["image:server", "symbol:parse", "dependent:no", "tgid:60"])
def test_the_machine_of_a_part_is_as_busy_as_that_of_the_whole(word):
    whole = short_of(machine(), "4")
    part = short_of(part_of_recording(machine(), parse_specifications([word])), "4")
    assert part.hits < whole.hits
    assert (part.busy_s, part.busy_share) == (whole.busy_s, whole.busy_share)
    assert whole.busy_share == pytest.approx(1089 / 1989)


@pytest.mark.parametrize(
    ("lost", "run"),
    [
        (4000, {}),
        (4000, {"due_ticks": 1989 + 4000}),
        # Stopped, a daemon misses ticks that nobody counts as lost.
        (1000, {"due_ticks": 1989 + 4000, "seen_ticks": 1989, "wall_seconds": 5989 / 256 / 2}),
    ],
)
def test_lost_and_missing_ticks_are_neither_busy_nor_idle(lost, run):
    short = short_of(machine(lost=lost, **run), "4")
    assert short.busy_share == pytest.approx(1089 / 1989)
    assert short.seconds / short.seen_s == pytest.approx(689 / 1989)
    # The program may have had the same part of what was lost.
    assert short.half_width_s > 689 / 256 * 4000 / 1989


def test_processes_of_a_name_are_one_program():
    server, helper = short_of(family()).programs
    assert (server.name, server.processes, server.hits) == ("server", 31, 182)
    assert (helper.name, helper.processes, helper.hits) == ("helper", 1, 7)
    assert server.user_share == pytest.approx(152 / 182)


def test_functions_are_sums_over_programs_and_say_where():
    parse, clear, serve = short_of(family()).functions
    assert [row.name for row in (parse, clear, serve)] == ["parse", "clear_page", "serve"]
    assert [row.hits for row in (parse, clear, serve)] == [153, 34, 2]
    assert (parse.program, parse.other_programs) == ("server", 1)
    assert sum(row.share for row in (parse, clear, serve)) == pytest.approx(1.0)


def test_idle_cpus_and_prospect_itself_stand_aside():
    short = short_of(family(), "4")
    assert [row.name for row in short.programs] == ["other", "server", "helper"]
    assert short.hits == 689
    assert short.seconds == pytest.approx(689 / 256)
    assert short.busy_s == pytest.approx(1089 / 256)


def test_entry_reasons_are_those_of_what_is_asked_for():
    short = short_of(family())
    assert short.entry_reasons == (("page fault", 30 / 256), ("read", 4 / 256))
    assert short.kernel_s == sum(seconds for _, seconds in short.entry_reasons)


def test_the_caller_is_the_one_of_most_samples_and_never_the_function_itself():
    rows = {row.name: row.caller for row in short_of(stacks_profile()).functions}
    assert rows["work"] == "main"
    assert rows["vfs_read"] == "do_syscall_64"
    assert rows["jitted"] == "main"
    assert all(row.caller == "" for row in short_of(qsort_profile()).functions)


def test_bars_are_those_of_the_report():
    short = short_of(qsort_profile(), "2")
    assert short.functions[0].name == "my_compare"
    assert 0 < short.functions[0].half_width_s < short.functions[0].seconds
    assert short.half_width_s > 0
    assert [row.is_like_above for row in short.functions][:2] == [False, True]
    assert np.isfinite(short.needed_s)


@pytest.mark.parametrize("profile", [family, qsort_profile, stacks_profile])
@pytest.mark.parametrize("detail", ["2", "3", "4", "k"])
def test_it_fits_a_terminal(profile, detail):
    lines = first_screen(profile(), detail, "a recording.data")
    assert len(lines) <= 24
    commands = [line for line in lines if "prospect " in line]
    assert all(display_width(line) < 80 for line in lines if line not in commands)


def test_the_next_commands_can_be_typed():
    lines = first_screen(stacks_profile(), recording="a b.data")
    assert "Next:   prospect calls --callers-of work 'a b.data'" in lines
    assert "        prospect annotate work 'a b.data'" in lines
    assert "Next:   prospect annotate my_compare" in first_screen(qsort_profile(), "2", "perf.data")


def test_without_a_hit_it_says_what_to_do():
    build = ProfileBuilder()
    build.process("p", 1, is_command=True)
    lines = first_screen(build.build())
    assert any("raise the rate (-H)" in line for line in lines)


def in_groups(*paths):
    """The processes of `family`, each in the next of the control groups; none behind them."""
    profile = family()
    groups = [*paths, *[""] * len(profile.processes)][: len(profile.processes)]
    return replace(profile, processes=replace(profile.processes, control_group=groups))


def test_programs_say_in_which_services_they_ran():
    services = ["/web.service", *["/web.service"] * 3, *["/batch.service"] * 27, "/", "/db.service"]
    server, helper = short_of(in_groups(*services)).programs
    assert (server.service, server.other_services) == ("batch.service", 1)
    assert (helper.service, helper.other_services) == ("", 0)
    lines = first_screen(in_groups(*services))
    (title,) = [line for line in lines if line.startswith("Program ")]
    assert title.endswith("Service")
    assert "Kernel" not in title
    (row,) = [line for line in lines if line.startswith("server ")]
    assert row.endswith("batch +1")
    assert max(map(display_width, lines)) <= 80


def test_a_part_of_a_store_begins_with_services():
    groups = ["/web.service", *["/web.service"] * 3, *["/batch.service"] * 27, "/", "/db.service"]
    profile = in_groups(*groups)
    assert short_of(profile).services == ()
    profile = replace(profile, run=replace(profile.run, store_part=("--store", "s")))
    short = short_of(profile)
    assert [row.name for row in short.services] == ["batch.service", "web.service", ""]
    assert sum(row.hits for row in short.services) == short.hits
    batch = short.services[0]
    assert (batch.program, batch.other_programs) == ("server", 0)
    assert 0 < batch.half_width_s < batch.seconds
    lines = first_screen(profile)
    services, programs = (
        next(at for at, line in enumerate(lines) if line.startswith(title))
        for title in ("Service ", "Program ")
    )
    assert services < programs
    assert lines[services + 1].startswith("batch ")
    assert len(lines) <= 24


@pytest.mark.parametrize("group", ["", "/", "/web.service"])
def test_where_all_ran_in_one_there_is_no_column(group):
    profile = in_groups(*[group] * 100)
    assert not short_of(profile).has_services
    assert not any("Service" in line for line in first_screen(profile))


def test_what_matters_is_on_the_first_screen_with_callees_too():
    libc = "@/usr/lib/libc.so.6"
    stacks = [
        (f"main f{at} g{at}{libc} {leaf}{at}{libc}", 20 + at)
        for at in range(12)
        for leaf in ("x", "y")
    ]
    profile = profile_of_stacks(stacks, programs=("app", "a", "b", "c", "d", "e"))
    waits = replace(profile.run, cpus=2, throttled=())
    lines = first_screen(replace(profile, run=waits), recording="run.data")
    assert len(lines) == 24
    starts = ["Program", "With all it calls", "    Function", "Waits:", "Missing:", "Next:"]
    at = [next(n for n, line in enumerate(lines) if line.startswith(one)) for one in starts]
    assert at == sorted(at)
    # Each program has much of the time: two of them stay, and what is left out.
    assert at[1] - at[0] == 5
    assert at[2] - at[1] >= 4
    assert lines[at[2] - 1] == ""
    assert all(display_width(line) < 80 for line in lines)


def test_without_call_chains_no_table_has_fewer_rows():
    profile = profile_of_stacks([(f"f{at}", 20 + at) for at in range(12)])
    lines = first_screen(profile, recording="run.data")
    assert sum(line[:2].strip().rstrip("=").isdigit() for line in lines) == 5
    assert not any(line.startswith("With all it calls") for line in lines)
