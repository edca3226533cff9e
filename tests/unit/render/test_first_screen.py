"""The first screen as text: what it proposes to type next."""

from __future__ import annotations

import io

import numpy as np
import pytest

from builders.pages import report_of
from builders.profile_builder import ProfileBuilder, run_info
from builders.stacks import stack_copies, stacks_profile
from prospect.profile.model import KIND_ELF, KIND_PYTHON, LossTable
from prospect.profile.naming import SHORT_REMEDIES, NameSource
from prospect.records import replace
from prospect.render.next_commands import NOTHING, Repeated
from prospect.render.text.text_report import TextRenderer


def next_lines(
    *, hits=100, recording="run.data", info=None, name="main", repeated=NOTHING, **function
):
    build = ProfileBuilder(info or run_info(command=("work",)))
    source = function.pop("source", NameSource.SYMTAB)
    image = build.object("/bin/work", function.pop("kind", KIND_ELF), source=source)
    process = build.process("work", 7, is_command=True)
    build.hit(process, build.function("rest", image, 0x9000), 10)
    build.hit(process, build.function(name, image, 0x1000, **function), hits)
    report = report_of(build.build(), "text", recording=recording, repeated=repeated)
    lines = report.decode().splitlines()
    at = next(row for row, line in enumerate(lines) if line.startswith("Next: "))
    return lines[at : at + 2]


def test_where_one_function_has_it_all_lines_are_proposed():
    first, second = next_lines()
    assert "prospect report --lines run.data" in first
    assert "prospect annotate main run.data" in second


@pytest.mark.parametrize(
    "facts",
    [{"hits": 5}, {"linkage_name": "plain_c"}, {"source": NameSource.DYNSYM}],
    ids=["one of many", "C", "stripped"],
)
def test_else_they_are_not(facts):
    assert "--lines" not in "".join(next_lines(**facts))


@pytest.mark.parametrize("said", [(), ("--call-graph", "none"), ("--off-cpu",)])
def test_a_process_that_runs_already_is_recorded_again_with_its_callers(said):
    again = Repeated((*said, "-p", "7"))
    attached = run_info(command=())
    facts = {"linkage_name": "plain_c"}  # nothing to inline
    lines = next_lines(recording="", info=attached, repeated=again, **facts)
    asks = "" if said else "--call-graph auto "
    words = "".join(f"{word} " for word in said)
    assert lines[0] == f"Next:   prospect record {asks}{words}-p 7"
    assert ("calls --callers-of main" in lines[1]) is not bool(said)


def test_a_long_name_is_typed_by_a_part_that_means_it_alone():
    name = "void std::sort_loop<std::vector<int> >(int)"
    assert "annotate sort_loop run.data" in "".join(
        next_lines(name=name, linkage_name="_Z9sort_loop")
    )
    assert "annotate main run.data" in "".join(next_lines())
    bracket = "[fn at 0x6e90]"
    assert f"annotate '{bracket}' run.data" in "".join(
        next_lines(name=bracket, linkage_name=bracket)
    )


def test_of_a_python_function_the_source_lines_are_proposed():
    facts = {"kind": KIND_PYTHON, "source": NameSource.PYTHON, "name": "Reader.next_row"}
    assert "annotate --source Reader.next_row run.data" in "".join(next_lines(**facts))


def test_without_a_recording_the_command_is_spelled_out():
    again = Repeated(("-H", "99", "work"))
    many = next_lines(recording="", repeated=again)
    assert many == ["Next:   prospect record -H 99 work", "        prospect report --lines"]
    few = next_lines(recording="", repeated=again, hits=5)
    assert few == ["Next:   prospect record -H 99 work", "        prospect report"]


def test_where_callers_were_recorded_they_are_proposed_first():
    info = run_info(command=("work",), has_user_callers=True)
    assert "prospect calls --callers-of main run.data" in next_lines(info=info, source=5)[0]


def with_a_daemon(command_hits, daemon_hits, **facts):
    """Return the profile of a COMMAND beside which a service works."""
    build = ProfileBuilder(run_info(command=("client",), **facts))
    image = build.object("/bin/work")
    client = build.process("client", 7, is_command=True)
    worker = build.process("child", 8, is_descendant=True)
    daemon = build.process("daemon", 9)
    build.hit(client, build.function("ask", image, 0x1000), command_hits)
    build.hit(worker, build.function("wait", image, 0x2000), command_hits)
    build.hit(daemon, build.function("answer", image, 0x3000), daemon_hits)
    build.hit(build.process("prospect", 10, is_recorder=True), build.function("r", image, 1), 999)
    profile = build.build()
    groups = ["", "", f"/docker/{'0123456789abcdef' * 4}", ""]
    return replace(profile, processes=replace(profile.processes, control_group=groups))


@pytest.mark.parametrize("detail", ["2", "3"])
def test_who_used_the_machine_is_said_where_the_command_hardly_did(detail):
    lines = first_screen(with_a_daemon(2, 500), detail=detail, recording="run.data")
    (line,) = (line for line in lines if line.startswith("Others: "))
    assert line == "Others: 1.95 CPU s: daemon 1.95 (container-0...)"
    assert lines[lines.index("Missing: nothing was lost") + 1] == (
        "Next:   prospect report -V 4 run.data"
    )


def test_the_command_is_recorded_again_with_all_processes():
    again = Repeated(("client",), {"report": ("-V", "3", "--child", "--lines")})
    lines = first_screen(with_a_daemon(20, 500), detail="3", repeated=again)
    assert lines[-3:-1] == [
        "Next:   prospect record -a client",
        "        prospect report --lines -V 4",
    ]


@pytest.mark.parametrize(
    ("command_hits", "daemon_hits", "detail", "facts"),
    [
        (300, 500, "3", {}),  # the command and its child used more
        (2, 10, "3", {}),  # nobody used much
        (2, 500, "4", {}),
        (2, 500, "k", {}),
        (2, 500, "3", {"system_wide": False}),
    ],
)
def test_else_others_are_not_named(command_hits, daemon_hits, detail, facts):
    lines = first_screen(with_a_daemon(command_hits, daemon_hits, **facts), detail=detail)
    assert not [line for line in lines if line.startswith("Others: ")]


def first_screen(profile, **options):
    return report_of(profile, "text", **options).decode().partition("\n\n---")[0].splitlines()


@pytest.mark.parametrize(("is_command", "said"), [(False, 1), (True, 0)])
def test_every_process_instead_of_the_command_is_said_at_once(is_command, said):
    build = ProfileBuilder(run_info())
    process = build.process("work", 7, is_command=is_command)
    build.hit(process, build.function("main", build.object("/bin/work"), 0x1000), 10)
    notes = [line for line in first_screen(build.build(), detail="3") if line.startswith("Note: ")]
    whole = "Note: this is -V 4, not -V 3: the recording does not name COMMAND."
    assert notes == [whole] * said


def test_unnamed_hits_have_their_commonest_reason_and_its_remedy():
    build = ProfileBuilder(run_info(command=("work",)))
    process = build.process("work", 7, is_command=True)
    for source, hits in ((NameSource.NO_MATCH, 60), (NameSource.NO_STRIPPED, 38)):
        image = build.object(f"/bin/{source.name}", source=source)
        build.hit(process, build.function("", image, 0x1000, source=source), hits)
    build.hit(process, build.function("main", build.object("/bin/work"), 0x1000), 2)
    lines = first_screen(build.build(), detail="3")
    assert "Missing: 98 % of samples unnamed (file replaced: --sysroot or DEBUGINFOD_URLS)" in lines


def test_each_reason_fits_on_the_line():
    reasons = [source for source in NameSource if not source.named]
    assert set(SHORT_REMEDIES) == set(reasons)
    assert max(map(len, SHORT_REMEDIES.values())) <= 46


def test_chains_cut_at_the_limit_are_said_with_its_sysctl():
    event = replace(run_info().events[0], most_frames=127)
    build = ProfileBuilder(run_info(events=(event,), cut_chains=((7, 5), (9, 10))))
    process = build.process("work", 7, is_command=True)
    build.hit(process, build.function("main", build.object("/bin/work"), 0x1000), 10)
    told = report_of(build.build(), "text", detail="3").decode()
    missing = "Missing: 50 % of stacks cut at 127 frames (kernel.perf_event_max_stack)"
    assert missing in told.splitlines()
    assert "Stack quality" in told


@pytest.mark.parametrize(
    ("detail", "only_of_waits", "said"),
    [
        ("3", False, "nothing was lost"),
        ("4", False, "45 % of stacks cut"),
        ("4", True, "nothing was lost"),
    ],
)
def test_cut_stacks_are_those_that_were_asked_for(detail, only_of_waits, said):
    build = ProfileBuilder(run_info(command=("work",)))
    image = build.object("/bin/work")
    for pid, is_command in ((7, True), (9, False)):
        process = build.process("work", pid, is_command=is_command)
        build.hit(process, build.function("main", image, 0x1000), 10)
    copies = stack_copies([7] * 10 + [9] * 10, ["complete"] * 11 + ["cut"] * 9)
    copies = replace(copies, only_of_waits=only_of_waits)
    report = report_of(replace(build.build(), stack_copies=copies), "text", detail=detail)
    (line,) = [line for line in report.decode().splitlines() if line.startswith("Missing:")]
    assert said in line


@pytest.mark.parametrize("only_of_waits", [False, True])
def test_callers_are_proposed_if_samples_have_them_and_not_only_waits(only_of_waits):
    build = ProfileBuilder(run_info(command=("work",), has_user_callers=True))
    process = build.process("work", 7, is_command=True)
    build.hit(process, build.function("main", build.object("/bin/work"), 0x1000), 10)
    copies = replace(stack_copies([7] * 10, ["complete"] * 10), only_of_waits=only_of_waits)
    out = io.BytesIO()
    renderer = TextRenderer(recording="run.data")
    renderer.render(replace(build.build(), stack_copies=copies), out)
    assert ("calls --callers-of main" in out.getvalue().decode()) is not only_of_waits


def test_a_warning_has_its_remedy():
    profile = stacks_profile()
    losses = LossTable(*(np.array([value], np.int64) for value in (0, 5, 0)))
    lines = first_screen(replace(profile, losses=losses), detail="3")
    at = next(row for row, line in enumerate(lines) if line.startswith("Missing:"))
    assert "were lost" in lines[at]
    assert "sample less often (-H)" in " ".join(lines[at : at + 2])
    assert max(map(len, lines[at : at + 2])) <= 80


def test_copies_that_go_on_in_a_chain_are_not_cut():
    profile = stacks_profile()
    copies = stack_copies([77] * 10, ["cut"] * 10)
    lines = first_screen(replace(profile, stack_copies=copies), detail="3")
    assert "Missing: nothing was lost" in lines


def test_units_of_other_tools_are_safe_for_a_terminal():
    event = replace(run_info().events[0], unit="by\x1b[31mtes\udc80", seconds_per_period=0.0)
    build = ProfileBuilder(run_info(events=(event,), command=("work",)))
    process = build.process("work", 7, is_command=True)
    build.hit(process, build.function("main", build.object("/bin/work"), 0x1000), 10)
    report = report_of(build.build(), "text", detail="3")
    assert b"\x1b" not in report
    assert b"y\\x1b[31mtes\\x80" in report
