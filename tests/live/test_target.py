"""`--target`: COMMAND runs and is recorded over a real sshd, and the report is made here."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import prospect
from builders.ended_main_thread import process_without_main_thread
from builders.recordings import build_program, hits_by
from builders.ssh_target import PLAIN
from prospect.elf.image import ElfImage
from prospect.perfdata.reader import open_recording

pytestmark = [pytest.mark.live, pytest.mark.parallel]
NO_PYTHON = 'case "$SSH_ORIGINAL_COMMAND" in *python3*) exit 127;; esac'
# Of the processor, however busy the machine is.
BUSY = "import time\nwhile time.process_time() < {}: pass"


def test_the_command_runs_there_and_is_reported_here(target, tmp_path):
    file = tmp_path / "r"
    script = f"printf '%.7s\\n' \"$SSH_ORIGINAL_COMMAND\"; echo said >&2; exec python3 -c '{BUSY}'"
    ran = target.prospect(
        *("record", "--target", "there", "-H", 1000, "-o", file),
        *("sh", "-c", script.format(0.4)),
    )
    assert (ran.returncode, ran.stdout) == (0, "exec sh\n"), ran.stderr
    assert "said\n" in ran.stderr
    assert f"{file}: " in ran.stderr
    profile = prospect.open(file)
    assert list(profile.run.command[:2]) == ["sh", "-c"]
    assert hits_by(profile, "process")["python3"] > 300
    if shutil.which("perf"):
        words = ["perf", "report", "-i", file, "--stdio"]
        subprocess.run(words, check=True, capture_output=True, timeout=60)


def test_its_exit_status_is_that_of_the_command(target, tmp_path):
    ran = target.prospect("--target", "there", "-f", tmp_path / "report", "sh", "-c", "exit 7")
    assert ran.returncode == 7, ran.stderr
    assert "sh -c" in (tmp_path / "report").read_text()
    ran = target.prospect("--target", "there", "no-such-command")
    assert ran.returncode == 127
    assert ran.stderr.startswith("prospect: there: no-such-command: ")


def test_where_python_is_missing_perf_records(target, bare_root, tmp_path):
    # Of another build id than elsewhere: what a target sent is never replaced.
    program = build_program(bare_root / "opt", "chain", "-Wl,--build-id=md5")
    target.begin_sessions_by(f"{NO_PYTHON}\n{(target.directory / 'begin').read_text()}")
    file = tmp_path / "r"
    ran = target.prospect(
        *("record", "--target", "there", "-H", 1000, "-o", file),
        *("sh", "-c", "echo said; /opt/chain 3 500; exit 3"),
    )
    assert ran.returncode == 3, ran.stderr
    first, *rest = ran.stderr.splitlines()
    assert first.startswith("prospect: there has no python3: Prospect's recorder needs Python 3.9")
    assert "said" in rest
    assert hits_by(prospect.open(file), "process")["chain"] > 50
    # Whole, as `cat` there gives it.
    assert program.read_bytes() in {
        one.read_bytes() for one in target.cache.glob("*/targets/*/*.executable")
    }


def test_perf_there_is_ended_by_a_signal_and_refuses_what_it_has_not(target, tmp_path):
    target.begin_sessions_by(f"echo Welcome to there\n{NO_PYTHON}\n{PLAIN}")
    ran = target.prospect("record", "--target", "there", "--off-cpu", "-o", tmp_path / "r", "true")
    assert ran.returncode == 2
    assert "--off-cpu is not recorded by perf on the target" in ran.stderr
    child = target.start("record", "--target", "there", "-o", tmp_path / "r")
    _wait_for(lambda: (tmp_path / "r").exists() and (tmp_path / "r").stat().st_size > 1 << 12)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert f"{tmp_path / 'r'}: " in said
    assert "Traceback" not in said
    assert sum(hits_by(prospect.open(tmp_path / "r"), "process").values()) > 10


def test_names_and_stacks_come_from_programs_that_are_only_there(target, bare_root, tmp_path):
    program = build_program(bare_root / "opt", "chain", "-Wl,--build-id")
    file = tmp_path / "r"
    ran = target.prospect(
        *("record", "--target", "there", "-H", 1000, "--call-graph", "dwarf", "-o", file),
        *("/opt/chain", 3, 2000),
    )
    assert ran.returncode == 0, ran.stderr
    # Programs of other processes may be kept, too.
    build_id = ElfImage.parse(program.read_bytes()).build_id.hex()
    (kept,) = target.cache.glob(f"prospect/targets/*/{build_id}.executable")
    assert kept.stat().st_size == program.stat().st_size
    calls = target.prospect("calls", "--show", "callees", file).stdout
    chain = ["main", "outer", "middle", "inner", "descend", "leaf"]
    places = [calls.find(f" {name}\n") for name in chain]
    assert -1 not in places, calls
    assert places[:4] == sorted(places[:4])
    # Nothing stays there.
    assert [path for name in ("root", "tmp") for path in (bare_root / name).iterdir()] == []
    # Its code did not come.
    sent = ElfImage.parse(kept.read_bytes())
    assert not any(sent.section_data(sent.find_section(b".text")))


def test_a_process_there_whose_main_thread_has_ended_has_names(target, tmp_path):
    file = tmp_path / "r"
    with process_without_main_thread(busy=True) as pid:
        words = ("record", "--target", "there", "-p", pid, "--for", 0.7, "-H", 400, "-o", file)
        ran = target.prospect(*words)
    assert ran.returncode == 0, ran.stderr
    functions = hits_by(prospect.open(file), "function", pid=pid)
    assert sum(functions.values()) > 20
    assert not any("no mapping" in name for name in functions)


def test_a_lost_connection_ends_the_recording_and_leaves_nothing_there(target, tmp_path):
    mark = f"prospect_lost_{time.monotonic_ns()}"
    child = target.start(
        *("record", "--target", "there", "-M", 10, "-H", 1000, "-o", tmp_path / "r"),
        *("python3", "-c", f"{BUSY.format(60)} # {mark}"),
    )
    _wait_for(lambda: (tmp_path / "r").exists() and (tmp_path / "r").stat().st_size > 1 << 17)
    target.drop_connections()
    _, said = child.communicate(timeout=60)
    assert child.returncode
    assert "the connection to there was lost" in said
    assert re.search(r", (about )?[1-9]\d+ samples; next:", said), said
    _wait_for(lambda: not _runs(mark))
    with open_recording(str(tmp_path / "r")) as recording:
        assert sum(len(block.data) for block in recording.blocks()) > 1000


def test_a_signal_reaches_the_command(target, tmp_path):
    trap = "trap 'echo caught; exit 5' INT; echo ready; while :; do :; done"
    child = target.start("record", "--target", "there", "-o", tmp_path / "r", "sh", "-c", trap)
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGINT)
    out, said = child.communicate(timeout=60)
    assert (out, child.returncode) == ("caught\n", 5), said


@pytest.mark.parametrize(
    ("script", "said"),
    [
        pytest.param(
            *("exit 127", "there has neither python3 nor perf"), marks=pytest.mark.nightly
        ),
        pytest.param(
            *("echo Welcome; exit 0", "there did not start python3"), marks=pytest.mark.nightly
        ),
        (
            """echo '{"python": [3, 7, 1], "magic": "00"}'""",
            "there has neither python3 nor perf",
        ),
        (
            """echo '{"python": [3, 11, 1], "magic": "00"}'
            head -c 100000 /dev/urandom""",
            "the target's answer is damaged",
        ),
        ("yes '{}'", "there did not start python3"),
    ],
)
def test_a_target_that_is_none_is_said_in_a_line(target, script, said):
    target.begin_sessions_by(script)
    ran = target.prospect("--target", "there", "true")
    assert ran.returncode == 1
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_what_a_login_prints_is_skipped(target):
    target.begin_sessions_by('echo "Welcome to there"; exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"')
    ran = target.prospect("--target", "there", "-f", "/dev/null", "sh", "-c", "exit 3")
    assert ran.returncode == 3, ran.stderr


def test_an_ordinary_user_there_records_what_is_theirs(target, tmp_path):
    target.begin_sessions_by(
        'exec setpriv --reuid=65534 --regid=65534 --clear-groups /bin/sh -c "$SSH_ORIGINAL_COMMAND"'
    )
    ran = target.prospect(
        "record", "--target", "there", "-o", tmp_path / "r", "python3", "-c", BUSY.format(0.2)
    )
    assert ran.returncode == 0 or "there: " in ran.stderr
    assert "Traceback" not in ran.stderr
    if ran.returncode == 0:
        assert "Only COMMAND and its descendants" in ran.stderr


def test_a_host_that_is_not_there_is_said_in_a_line(target):
    ran = target.prospect("--target", "nowhere.invalid", "true")
    assert ran.returncode == 1
    assert "no connection to nowhere.invalid" in ran.stderr


def _wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _runs(mark):
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in entry.read_bytes():
                return True
        except OSError:
            continue
    return False
