import re
from pathlib import Path

import pytest

from builders.pages import report_of
from builders.profile import (
    empty_profile,
    hostile_profile,
    perf_profile,
    qsort_profile,
    rowless_profile,
)
from builders.profile_builder import ProfileBuilder, clock_event, run_info
from prospect.profile.model import BIRTH_EXEC, BIRTH_FORK, CPUMODE_KERNEL
from prospect.profile.naming import NameSource
from prospect.profile.run_info import EventInfo
from prospect.records import replace
from prospect.render.escape import display_width


def _report(profile, **options):
    return report_of(profile, "text", **options).decode()


def _between(text, first, last):
    return text.split(first, 1)[1].split(last, 1)[0]


def test_the_answer_stands_before_what_it_rests_on():
    report = _report(qsort_profile(), detail="4", recording="perf.data")
    titles = [
        "Program ",
        " Function ",
        "Next:   prospect",
        "Programs of every process",
        "Functions of every process",
        "Global KERNEL Profile",
        "Extrapolated Summary of 6 Processes Analyzed - Sorted by User Time",
        "Details of Processes",
        "Time: qsort",
        "Statistics of Run",
        "Accounting",
        "Symbol quality",
        "Memory Map of qsort",
    ]
    places = [report.index(title) for title in titles]
    assert places == sorted(places)


def test_the_other_report_says_all_that_the_classic_one_says():
    classic, report = (_report(qsort_profile(), classic=order) for order in (True, False))
    # But for its own phrases.
    own = ("Section ", "Birth by ", "Process END by ", "Skip remainder")
    own += ("hit", "Hits", "routine", "Routine", "portion", "cause", "Tick ledger")
    # Columns are as wide as their titles.
    classic, report = (re.sub(" +", " ", one) for one in (classic, report))
    classic, report = (re.sub(r"(?s)\nBuffers read.*?\n\n", "", one) for one in (classic, report))
    left = set(classic.splitlines()) - set(report.splitlines())
    assert all(any(phrase in line for phrase in own) for line in left)
    assert not any(phrase in report for phrase in own)
    assert "Next:" not in classic


def test_sections_stand_in_prospects_order():
    report = _report(qsort_profile(), detail="4", classic=True)
    titles = [
        "Time: qsort",
        "Statistics of Run",
        "Extrapolated Summary of 6 Processes Analyzed - Sorted by User Time",
        "Details of Processes Specified with '-V 4' Option",
        "Section 1: Process Intersection with Sampling Mechanism, UK",
        "USER portion of profile:",
        "KERNEL portion of profile:",
        "Section 3: Memory Map",
        "Global KERNEL Profile",
        "Symbol quality",
    ]
    places = [report.index(title) for title in titles]
    assert places == sorted(places)


def test_cut_lines_have_prospects_words():
    report = _report(qsort_profile(), classic=True)
    assert "- Skip remainder, user time of 0.019531 is <= '-m 0.02000' Sec\n" in report
    assert "- Skip remainder, SPU of 0.019531 is below '-m 0.020000' Sec (2 routines" in report
    assert "- Skip remainder, SPU of 0.003906 is below '-k 0.020000' Sec (1 routine, 1" in report


def test_cut_lines_say_which_options_leave_what_out():
    report = _report(qsort_profile())
    summary = (
        "- Left out by '-m 0.02' and '-k 0.02': 4 processes, of 0.019531 s of user time and less"
    )
    assert f"{summary}\n" in report
    assert "- Left out by '-m 0.02': 2 functions, " in report


def test_nothing_is_skipped_at_a_threshold_of_nothing():
    build = ProfileBuilder()
    process = build.process("p", 1, is_command=True)
    build.hit(process, build.function("f", build.object("/f"), 0), 1)
    report = _report(build.build(), user_threshold_s=0.0, kernel_threshold_s=0.0)
    assert "Left out" not in report
    assert "skipped" not in report


def test_a_process_under_the_user_threshold_is_kept_for_its_system_time():
    summary = _between(_report(qsort_profile()), "Process name", "Left out")
    assert "swapper" in summary
    assert "bash" not in summary


def test_summary_rows_and_the_skipped_ones_add_up_to_the_total():
    summary = _between(_report(qsort_profile()), "±\n", "Wall time")
    rows = [line.split()[-6:] for line in summary.splitlines() if not line.startswith("- Left out")]
    *parts, total = [(int(user), int(system)) for user, _, _, system, _, _ in rows]
    assert tuple(map(sum, zip(*parts, strict=True))) == total == (392, 622)


def test_the_wall_line_holds_sampled_time_against_the_cpus():
    line = re.search(r"^Wall time.*$", _report(qsort_profile(cpus=2)), re.MULTILINE).group()
    assert line == "Wall time 3.961 Sec x 2 CPUs = 7.922 Sec; sampled 3.961 Sec (50.0%)"


def test_birth_parent_and_end_of_a_process():
    report = _report(qsort_profile())
    assert "qsort          1213   Began by exec: PPID(1212) GPID(1212) SID(823)\n" in report
    assert "Parent was prospect.\n" in report
    assert "Ended by exit()\n" in report
    classic = _report(qsort_profile(), classic=True)
    assert "qsort          1213   Birth by exec: PPID(1212) GPID(1212) SID(823)\n" in classic
    assert "Process END by exit()\n" in classic


def test_a_process_that_became_another_program_ended_by_exec():
    build = ProfileBuilder()
    shell = build.process("sh", 5, is_command=True, birth=BIRTH_FORK, end_ns=3)
    build.process("ls", 5, is_command=True, birth=BIRTH_EXEC, parent_index=shell)
    report = _report(build.build())
    assert report.count("Went on as another program, by exec()") == 1
    assert report.count("Still running") == 1
    assert "Began by fork: PPID(?) GPID(?) SID(?)" in report


def test_kernel_only_shows_four_profiles_that_sum_up():
    report = _report(qsort_profile(), detail="k")
    assert "Details of Processes" not in report
    for title in (
        "Global KERNEL Profile",
        "KERNEL Profile due to Kernel Threads",
        "KERNEL Profile due to User Processes",
        "KERNEL Profile of Process Zero (idle and interrupts)",
    ):
        assert f"\n{title}\n" in report
    assert "622 = 2 + 9 + 611 samples, function by function." in report
    assert "Global KERNEL Profile" not in _report(qsort_profile(), detail="3")


def test_accum_ends_at_the_sum_of_the_rows():
    report = _report(qsort_profile(), user_threshold_s=0.0)
    rows = re.findall(
        r"^ *\d+=? +\d+% +(\d+)% +(\d+) ", _between(report, "USER", "KERNEL m"), re.MULTILINE
    )
    running = 0
    for accumulated, hits in rows:
        running += int(hits)
        assert int(accumulated) == round(100 * running / 384)
    assert running == 384


@pytest.mark.parametrize("profile", [hostile_profile(), qsort_profile(), rowless_profile()])
def test_function_columns_line_up_in_every_table(profile):
    lines = _report(profile, detail="4", user_threshold_s=0.0).splitlines()
    seen = 0
    for number, title in enumerate(lines):
        if "Function" not in title:
            continue
        for row in lines[number + 1 :]:
            found = re.search(r"(0x[0-9a-f]{8,16})  .*?((?:FUNC|-) +(?:GLOBAL|LOCAL|-) +)", row)
            if not found:
                break
            name_at = title.index("Function")
            assert display_width(row[: found.end(1)]) + 2 == name_at
            assert display_width(row[: found.start(2)]) == title.index("Type")
            assert display_width(row[: found.end(2)]) == title.index("Filename")
            seen += 1
    assert seen >= 5


def test_a_wide_name_is_cut_in_its_column_and_whole_at_the_end_of_the_line():
    rows = [line for line in _report(hostile_profile()).splitlines() if "find(char" in line]
    row = next(line for line in rows if "FUNC" in line)
    wide = "std::map<std::string, int>::" * 20 + "find(char const*)"
    assert row.endswith(f"  = {wide}")
    assert "  std::map::std::map::std::map::std::map::find  FUNC" in row
    assert any(line.endswith(f"  {wide}") for line in rows)  # the table of functions


def test_functions_are_one_row_each_or_of_each_process_apart():
    build = ProfileBuilder()
    image = build.object("/bin/server")
    serve = build.function("serve", image, 0)
    for pid, hits in ((10, 60), (11, 30), (12, 1)):
        is_command = pid == 10
        process = build.process("server", pid, is_command=is_command, is_descendant=not is_command)
        build.hit(process, serve, hits)
    profile = build.build()
    together, apart = (
        _between(_report(profile, separate=separate), "Functions of", "Extrapolated Summary")
        for separate in ((), ("process",))
    )
    (row,) = [line.split() for line in together.splitlines() if "serve" in line.split()]
    assert row[3:] == ["91", "100%", "server", "server", "serve"]
    rows = [line.split() for line in apart.splitlines() if "serve" in line.split()]
    assert [(row[3], row[5]) for row in rows] == [("60", "10"), ("30", "11")]
    assert "Left out by '-m 0.02': 1 row with 0.004 s, 1 sample (1.1%)" in apart


def test_no_name_reaches_the_terminal_as_a_command():
    report = _report(hostile_profile(), detail="4")
    assert all(char.isprintable() or char == "\n" for char in report)
    assert "\\x1b[31mred" in report
    assert "line\\x0abreak" in report
    assert "\\u202e" in report
    assert "\\xff\\xfe" in report


def test_hits_without_a_name_say_why_in_its_place():
    assert "[outside every symbol]" in _report(qsort_profile(), user_threshold_s=0.0)
    assert "[anonymous memory]" in _report(hostile_profile())


def test_other_symbols_of_an_address_are_noted():
    build = ProfileBuilder()
    process = build.process("p", 1, is_command=True)
    names = tuple(f"alias{number}" for number in range(6))
    build.hit(process, build.function("f", build.object("/f"), 0, aliases=names), 90)
    assert "/f  also alias0, alias1, alias2, alias3 and 2 more\n" in _report(build.build())


def test_colour_is_only_for_those_who_ask():
    plain = _report(qsort_profile())
    coloured = _report(qsort_profile(), colour=True)
    assert "\x1b" not in plain
    assert "\x1b[1mStatistics of Run\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain


def test_hits_of_guests_get_columns_of_their_own_and_only_then():
    assert "Other Samples" not in _report(qsort_profile())
    report = _report(rowless_profile(), detail="4")
    assert "Other Samples" in report
    assert "OTHER mode:" in report


def test_the_classic_statistics_have_the_counters_of_2002_too():
    profile = qsort_profile()
    hits = profile.hits
    pairs = {}
    for process, location, count in zip(
        hits.process_index.tolist(), hits.location_index.tolist(), hits.count.tolist(), strict=True
    ):
        pairs[process, location] = pairs.get((process, location), 0) + count
    report = _report(profile, classic=True)
    found = dict(
        re.findall(
            r"(Num drop modules|Num sample traces|Ave hits/sample trace"
            r"|Low transport samples|High transport samples|Num samples): +(\S+)",
            report,
        )
    )
    assert found == {
        "Num drop modules": "-",
        "Num sample traces": str(len(pairs)),
        "Ave hits/sample trace": f"{sum(pairs.values()) / len(pairs):.3f}",
        "Low transport samples": str(min(pairs.values())),
        "High transport samples": str(max(pairs.values())),
        "Num samples": str(sum(pairs.values())),
    }
    documented = Path(__file__).parents[3].joinpath("docs", "report.md").read_text()
    for label in found:
        assert label in documented
        assert label == "Num samples" or label not in _report(profile)
    assert "Num sample traces" in _report(empty_profile(), classic=True)


def test_counters_that_do_not_exist_are_left_out_and_unknown_ones_shown():
    report = _report(empty_profile(statistics={"pages\x1b_moved": 77}))
    assert "Buffers read" not in report
    assert "Samples of Prospect" not in report
    assert re.search(r"Pages\\x1b moved: +77", report)


def test_several_events_are_reported_one_after_the_other():
    report = _report(perf_profile())
    assert "Event 1 of 2 with samples: cycles\n" in report
    assert "Event 2 of 2 with samples: page-faults\n" in report
    assert report.count("Symbol quality") == 2
    assert "Sampling frequency: cycles 4000 Hz, page-faults unknown" in report


def test_what_a_recording_does_not_say_is_unknown():
    facts = {
        "uname": "",
        "arch": "",
        "cpu_description": "",
        "cpu_mhz": float("nan"),
        "cpus": 0,
        "wall_seconds": 0.0,
        "clock": "",
        "recorder": "",
        "started_at": 1e300,
    }
    report = _report(empty_profile(**facts))
    for line in (
        "Uname: unknown",
        "CPU Speed: unknown",
        "Recorded: at an unknown time by unknown",
        "Interval: unknown wall time, CPUs unknown, every process",
        "Wall time unknown; sampled 0.00 Sec",
    ):
        assert f"{line}\n" in report
    assert "Sampling clock" not in report


def test_limits_are_notes_and_damage_is_warned_of():
    report = _report(empty_profile(limits=("No kernel samples.",), damage=("Cut short.",)))
    assert "\nNote: No kernel samples.\n" in report
    assert "\nWarning: Cut short.\n" in report


def test_more_hits_give_more_digits():
    build = ProfileBuilder(run_info())
    process = build.process("p", 1, is_command=True)
    where = build.object("/f")
    build.hit(process, build.function("f", where, 0), 1200)
    build.hit(process, build.function("g", where, 16), 100)
    build.hit(process, build.function("g", where, 32), 90, CPUMODE_KERNEL)
    report = _report(build.build())
    assert re.search(r"^ +1 +92\.3% +92\.3% +1200 ", report, re.MULTILINE)
    assert re.search(r"^ +1 +100% +100% +90 ", report, re.MULTILINE)


def test_an_event_without_hits_is_not_spoken_of():
    events = (*perf_profile().run.events[:1], EventInfo("dummy:HG", 0.0, 0.0, 0.0))
    build = ProfileBuilder(run_info(events=events))
    process = build.process("p", 1, is_command=True)
    build.hit(process, build.function("f", build.object("/f"), 0), 90)
    report = _report(build.build())
    assert "dummy" not in report
    assert "Sampling frequency: 4000 Hz\n" in report


def test_a_wide_bracket_keeps_both_of_its_names_in_sight():
    build = ProfileBuilder(run_info())
    process = build.process("p", 1, is_command=True)
    where = build.object("/f")
    wide = f"first::{'x' * 60}()->second::{'y' * 60}()"
    build.hit(process, build.function(wide, where, 0, source=int(NameSource.BRACKET)), 90)
    short = f"a->second::{'y' * 60}()"
    build.hit(process, build.function(short, where, 16, source=int(NameSource.BRACKET)), 80)
    report = _report(build.build())
    assert re.search(r"  \[after first:x+\.\.\.x+\(\)\]  +FUNC ".replace(":", ".*"), report)
    assert re.search(r"  \[in f, after a\]  +FUNC ", report)
    assert f"= {wide}\n" in report


def test_which_function_of_a_wide_bracket_it_is_stays_in_sight():
    build = ProfileBuilder(run_info())
    process = build.process("p", 1, is_command=True)
    wide = f"{'x' * 60}->{'y' * 60} [fn 2 of 30]"
    function = build.function(wide, build.object("/f"), 0, source=int(NameSource.BOUNDS))
    build.hit(process, function, 90)
    report = _report(build.build())
    assert re.search(r"  \[in f, fn 2 of 30\]  +FUNC ", report)
    assert f"= {wide}\n" in report


@pytest.mark.parametrize(("named", "said"), [(400, "over 99%"), (4000, "over 99.9%"), (90, "99%")])
def test_not_all_hits_are_never_said_to_be_100_percent(named, said):
    build = ProfileBuilder(run_info())
    process = build.process("p", 1, is_command=True)
    where = build.object("/f")
    build.hit(process, build.function("f", where, 0), named)
    build.hit(process, build.function("", where, 16, source=int(NameSource.NO_COVER)), 1)
    assert f"{named} ({said}) with a name, 1 without." in _report(build.build())


def test_kernel_time_that_was_not_sampled_is_not_said_to_be_none():
    event = replace(clock_event(256.0), excludes_kernel=True)
    build = ProfileBuilder(run_info(events=(event,)))
    process = build.process("p", 1, is_command=True)
    build.hit(process, build.function("f", build.object("/f"), 0), 90)
    assert "KERNEL mode:\nNot sampled.\n" in _report(build.build())
