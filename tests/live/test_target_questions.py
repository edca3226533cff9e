"""`--target` of commands that ask without recording, over a real sshd."""

from __future__ import annotations

import json
import time

import pytest

pytestmark = [pytest.mark.live, pytest.mark.parallel]


def test_events_are_counted_there(target):
    script = 'printf "%.7s" "$SSH_ORIGINAL_COMMAND"; exit 5'
    ran = target.prospect(
        *("stat", "--target", "there", "--format", "json", "--event", "page-faults"),
        *("-f", "/dev/stderr", "sh", "-c", script),
    )
    assert (ran.returncode, ran.stdout) == (5, "exec sh"), ran.stderr
    found = json.loads(ran.stderr)
    assert found["target"] == f"'sh -c {script}'"
    assert found["events"][0]["count"]["value"] > 10


def test_intervals_are_shown_as_they_end(target):
    words = ("stat", "--target", "there", "-V4", "--format", "csv", "--interval", 0.2, "sleep", 1.5)
    began = None
    with target.start(*words) as child:
        for line in child.stdout:
            if "cpu-clock" in line and began is None:
                began = time.monotonic()
        assert child.wait(timeout=60) == 0, child.stderr.read()
    assert began is not None
    assert time.monotonic() - began > 0.5


def test_the_doctor_looks_there(target):
    target.begin_sessions_by(
        'exec setpriv --reuid=65534 --regid=65534 --clear-groups /bin/sh -c "$SSH_ORIGINAL_COMMAND"'
    )
    ran = target.prospect("doctor", "--target", "there")
    assert ran.returncode in (1, 2), ran.stderr
    assert "user 65534\n" in ran.stdout
    assert "perf_event_open" in ran.stdout


def test_its_events_are_listed_and_tried(target):
    ran = target.prospect("list", "--target", "there", "--check", "--format", "json", "page-fault*")
    (event,) = json.loads(ran.stdout)["events"]
    assert event["name"] == "page-faults"
    assert event["check"]["can_count"]
    ran = target.prospect("list", "--target", "there", "no-such-event")
    assert ran.returncode == 2
    assert "no event there is called 'no-such-event'" in ran.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("stat", "--event", "no-such-event", "true"), "there: no event 'no-such-event'"),
        (("stat", "no-such-command"), "there: no-such-command: command not found"),
    ],
)
def test_what_cannot_be_counted_is_said_in_a_line(target, words, said):
    ran = target.prospect(words[0], "--target", "there", *words[1:])
    assert ran.returncode in (2, 127)
    assert ran.stderr.startswith(f"prospect: {said}")
