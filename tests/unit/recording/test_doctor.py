"""The doctor's judgement, from facts alone."""

from __future__ import annotations

import json

import pytest

from builders.json_schema import document_errors
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr
from prospect.capture.events.event_choice import (
    CLOCK_HARDWARE,
    CLOCK_TIMER,
    SCOPE_SYSTEM,
    SCOPE_TASK,
    EventPlan,
)
from prospect.capture.runtimes.attaching import NEEDS_RIGHTS
from prospect.cli.doctor import table_text
from prospect.recording.diagnosis import (
    STATUS_FINE,
    STATUS_LIMITED,
    STATUS_NOTHING,
    Facts,
    diagnose,
)
from prospect.records import replace
from prospect.render.json.document_fields import indented
from prospect.render.json.machine_documents import DIAGNOSIS

ROOT = Facts(
    user_id=0,
    uname="host, Linux 6.1.0 x86_64",
    cpus=8,
    plan=EventPlan(EventAttr(), (1,), SCOPE_SYSTEM, CLOCK_HARDWARE, ()),
    refusal="",
    paranoid=3,
    max_sample_rate_hz=100_000,
    ring_kib=516,
    sees_kernel_symbols=True,
    sees_all_processes=True,
    container="",
    is_filtered=False,
    open_files=1024,
    call_graphs=("fp", "dwarf", "auto"),
)
USER_PLAN = EventPlan(
    EventAttr(flags=abi.FLAG_EXCLUDE_KERNEL), (1, 2, 3, 4), SCOPE_TASK, CLOCK_TIMER, ()
)
USER = replace(
    ROOT,
    user_id=1000,
    plan=USER_PLAN,
    paranoid=2,
    sees_kernel_symbols=False,
    sees_all_processes=False,
)
REFUSED = replace(USER, plan=None, refusal="kernel.perf_event_paranoid is 3: ...", paranoid=3)


def states(facts):
    return {check.name: check.state for check in diagnose(facts).checks}


def test_root_on_a_whole_machine_lacks_nothing():
    diagnosis = diagnose(ROOT)
    assert diagnosis.status == STATUS_FINE
    assert diagnosis.remedy == ""
    assert set(states(ROOT).values()) == {"ok", "note"}


def test_a_timer_instead_of_a_counter_is_no_limit():
    plan = ROOT.plan._replace(clock=CLOCK_TIMER)
    assert states(replace(ROOT, plan=plan))["clock"] == "note"
    assert diagnose(replace(ROOT, plan=plan)).status == STATUS_FINE


def test_a_user_at_level_two_is_limited_and_told_the_settings():
    diagnosis = diagnose(USER)
    assert diagnosis.status == STATUS_LIMITED
    assert states(USER)["processes"] == "limited"
    assert states(USER)["kernel time"] == "limited"
    assert "sudo sysctl kernel.perf_event_paranoid=0 kernel.kptr_restrict=0" in diagnosis.remedy


def test_a_refusal_is_reported_with_its_reason():
    diagnosis = diagnose(REFUSED)
    assert diagnosis.status == STATUS_NOTHING
    assert diagnosis.checks[0].finding == REFUSED.refusal
    assert "sysctl" in diagnosis.remedy


@pytest.mark.parametrize(
    "facts",
    [replace(REFUSED, is_filtered=True), replace(ROOT, sees_kernel_symbols=False)],
    ids=["a seccomp filter", "root without its capabilities"],
)
def test_what_a_container_withholds_its_runtime_must_give(facts):
    assert "--cap-add PERFMON" in diagnose(facts).remedy


def test_too_few_files_for_the_cpus_fail():
    diagnosis = diagnose(replace(ROOT, cpus=1024))
    assert diagnosis.status == STATUS_NOTHING
    assert "ulimit -Hn 6200" in diagnosis.remedy
    assert diagnose(replace(ROOT, cpus=1024, open_files=-1)).status == STATUS_FINE


def test_a_lowered_rate_limit_is_a_limit_with_its_own_remedy():
    diagnosis = diagnose(replace(ROOT, max_sample_rate_hz=250))
    assert diagnosis.status == STATUS_LIMITED
    assert "perf_event_max_sample_rate" in diagnosis.remedy


def test_hidden_processes_alone_are_a_matter_of_running_as_root():
    facts = replace(ROOT, user_id=1000, sees_all_processes=False)
    assert diagnose(facts).status == STATUS_LIMITED
    assert diagnose(facts).remedy == "run prospect as root"


@pytest.mark.parametrize("facts", [ROOT, USER, REFUSED])
def test_both_formats_say_the_same(facts):
    diagnosis = diagnose(facts)
    document = json.loads(indented(DIAGNOSIS, diagnosis))
    text = table_text(diagnosis)
    assert document_errors(document) == []
    assert document["status"] == diagnosis.status
    for check in document["checks"]:
        assert check["finding"] in text
    assert document["summary"] in text
    assert document["remedy"] in text


def test_a_counter_is_for_masked_interrupts_only_where_it_is_an_nmi():
    for has_nmis in (True, False):
        diagnosis = diagnose(replace(ROOT, has_nmis=has_nmis))
        assert ("with interrupts off" in table_text(diagnosis)) == has_nmis


@pytest.mark.parametrize(
    ("facts", "state", "words"),
    [
        (ROOT, "ok", "of CPython, Ruby, PHP and Node, by eBPF"),
        (replace(ROOT, has_tracers=True), "ok", "may cost samples"),
        (replace(USER, no_python=NEEDS_RIGHTS), "limited", "CAP_BPF and CAP_PERFMON"),
        (replace(ROOT, no_python="this kernel has no BTF"), "note", "no BTF"),
        (USER, "limited", "from memory; by eBPF: only if every process"),
        (replace(USER, only_started=True), "limited", "of programs that Prospect starts"),
        (replace(USER, no_memory="forbidden"), "limited", "not read: forbidden; by eBPF"),
    ],
)
def test_whether_functions_of_runtimes_are_read_is_said(facts, state, words):
    (check,) = (one for one in diagnose(facts).checks if one.name == "functions of runtimes")
    assert check.state == state
    assert words in check.finding


def test_root_reads_functions_of_runtimes_where_nobody_else_does():
    facts = replace(ROOT, user_id=1000, no_python=NEEDS_RIGHTS)
    assert diagnose(facts).remedy == "run prospect as root"
