"""What a stranger's program names is read with no more rights than the stranger has."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from builders.command_line import run_here
from builders.recordings import PROSPECT, record_without_files
from builders.silent_mount import silent_mount
from prospect.elf.image import ElfImage

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root reads more than strangers may"),
    pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc"),
]
STRANGER = 4242
SECRET = "the-secret-of-root"
BURNS = """
#line 1 "{source}"
int main(void) {{ volatile unsigned long n = 0; while (n < 100000000ul) n++; return 0; }}
"""


def strangers_recording(tmp_path, source, owner=STRANGER):
    program = tmp_path / "burns"
    command = ["gcc", "-g", "-O0", "-x", "c", "-", "-o", program]
    subprocess.run(command, input=BURNS.format(source=source), text=True, check=True)
    os.chown(program, owner, owner)
    record_without_files(tmp_path / "r", program)
    return tmp_path / "r"


def shown(*words):
    ran = run_here(*words)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.decode()


def annotated(recording):
    return shown("annotate", "--no-cache", "main", recording)


@pytest.fixture
def open_path():
    """A directory that everybody may reach, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        yield Path(directory)


@pytest.mark.timeout(600)
def test_source_text_is_not_read_for_strangers(open_path):
    tmp_path = open_path
    source = tmp_path / "source.c"
    source.write_text(f"int x; /* {SECRET} */\n" * 20)
    source.chmod(0o600)
    recording = strangers_recording(tmp_path, source)
    assert SECRET not in annotated(recording)
    assert SECRET not in shown("annotate", "--no-cache", "--source", recording)
    assert SECRET not in shown("report", "-ee", "--format", "html", recording)
    archive = tmp_path / "archive"
    shown("archive", "-o", archive, recording)
    assert SECRET not in shown("annotate", "main", archive)
    # A link does not help.
    source.rename(tmp_path / "hidden.c")
    source.symlink_to("hidden.c")
    os.chown(source, STRANGER, STRANGER, follow_symlinks=False)
    assert SECRET not in annotated(recording)
    # Of root's own programs it is shown, and what everybody may read of anybody's.
    os.chown(source, 0, 0, follow_symlinks=False)
    os.chown(tmp_path / "burns", 0, 0)
    assert SECRET in annotated(recording)
    os.chown(tmp_path / "burns", STRANGER, STRANGER)
    assert SECRET not in annotated(recording)
    (tmp_path / "hidden.c").chmod(0o644)
    assert SECRET in annotated(recording)


@pytest.mark.timeout(300)
def test_source_text_is_not_read_for_a_copy_that_came_from_elsewhere(open_path, monkeypatch):
    source = open_path / "source.c"
    source.write_text(f"int x; /* {SECRET} */\n" * 20)
    source.chmod(0o600)
    monkeypatch.setenv("XDG_CACHE_HOME", str(open_path / "cache"))
    recording = strangers_recording(open_path, source, owner=0)
    assert SECRET in shown("annotate", "main", recording)
    program = open_path / "burns"
    build_id = ElfImage.parse(program.read_bytes()).build_id.hex()
    kept = open_path / "cache" / "prospect" / f"{build_id}.executable"
    program.rename(kept)
    kept.chmod(0o600)
    # Its own lines are not those that the table of root's program, of the same build id, has.
    for words in (["main"], ["--source"]):
        told = shown("annotate", *words, recording)
        assert SECRET not in told
        assert "source.c" in told
    source.chmod(0o644)
    assert SECRET in shown("annotate", "main", recording)


@pytest.mark.timeout(200)
def test_source_on_a_mount_that_does_not_answer_holds_up_no_report(open_path):
    tmp_path = open_path
    (tmp_path / "silent").mkdir()
    recording = strangers_recording(tmp_path, tmp_path / "silent" / "source.c")
    with silent_mount(tmp_path / "silent"):
        line = [*PROSPECT, "annotate", "--no-cache", "main", str(recording)]
        done = subprocess.run(line, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.timeout(200)
def test_a_strangers_recording_names_no_image_that_the_stranger_may_not_read(
    open_path, monkeypatch
):
    # A perf of all CPUs that ends meanwhile would copy the program to root's own files.
    monkeypatch.setenv("HOME", str(open_path))
    source = open_path / "source.c"
    source.write_text(f"int x; /* {SECRET} */\n" * 20)
    source.chmod(0o600)
    recording = strangers_recording(open_path, source, owner=0)
    program = open_path / "burns"

    def reasons():
        # Of this program alone: a busy machine has many that are not to be read.
        shown_of_it = shown("report", "--no-cache", "--format", "json", recording, "image:burns")
        document = json.loads(shown_of_it)
        entries = [
            one for event in document["events"] for one in event["symbol_quality"]["sources"]
        ]
        return {one["source"] for one in entries if str(program) in str(one["objects"])}

    assert SECRET in annotated(recording)
    program.chmod(0o700)
    assert "NO_PERMISSION" not in reasons()
    os.chown(recording, STRANGER, STRANGER)
    assert "NO_PERMISSION" in reasons()
    # Root's image may be read by the stranger, its source not.
    program.chmod(0o755)
    assert "NO_PERMISSION" not in reasons()
    assert SECRET not in annotated(recording)


def names_source(directory):
    """Make a recording whose program names a source file on the mount; return both."""
    return strangers_recording(directory, directory / "silent" / "source.c"), "silent", 65534


def names_debug_file(directory):
    """Make one whose program has a debug link, which leads to the mount."""
    recording = strangers_recording(directory, directory / "source.c")
    program = directory / "burns"
    for words in (
        ("--only-keep-debug", program, directory / "burns.debug"),
        ("--strip-all", "--add-gnu-debuglink", directory / "burns.debug", program),
    ):
        subprocess.run(["objcopy", *words], check=True)
    (directory / "burns.debug").unlink()
    os.utime(program, (0, 0))  # it is the recorded one, by its build id
    return recording, ".debug", 65534


def lies_on_it(directory):
    """Make one whose program is on a mount that root has made."""
    (directory / "silent").mkdir()
    recording = strangers_recording(directory / "silent", directory / "source.c", owner=0)
    recording.rename(directory / "r")
    (directory / "silent" / "burns").unlink()
    return directory / "r", "silent", 0


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("names", "words", "number", "takes"),
    [
        (names_source, ("annotate", "main"), signal.SIGINT, False),
        (names_source, ("annotate", "main"), signal.SIGTERM, True),
        (lies_on_it, ("report",), signal.SIGINT, True),
        (names_debug_file, ("report",), signal.SIGKILL, True),
        *(
            pytest.param(*words, marks=pytest.mark.nightly)
            for words in (
                (names_debug_file, ("annotate", "--source"), signal.SIGHUP, False),
                (names_source, ("annotate", "main"), signal.SIGHUP, False),
                (names_debug_file, ("report",), signal.SIGTERM, False),
                (names_debug_file, ("annotate", "--source"), signal.SIGINT, False),
                (lies_on_it, ("annotate", "--source"), signal.SIGTERM, True),
                (names_debug_file, ("report",), signal.SIGINT, True),
                (names_debug_file, ("annotate", "--source"), signal.SIGTERM, True),
                (lies_on_it, ("report",), signal.SIGTERM, False),
                (names_source, ("annotate", "main"), signal.SIGKILL, False),
            )
        ),
    ],
)
def test_a_signal_ends_what_waits_for_a_mount(open_path, names, words, number, takes):
    recording, mount, user = names(open_path)
    (open_path / mount).mkdir(exist_ok=True)
    with silent_mount(open_path / mount, user, takes=takes):
        before = sorted(open_path.iterdir())
        options = ("--no-cache", "-f", open_path / "out")
        line = [*PROSPECT, words[0], *options, *words[1:], recording]
        report = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        blocked = _blocked_child(report)
        report.send_signal(number)
        began = time.monotonic()
        assert report.wait(timeout=60) in (-number, 128 + number)
        assert time.monotonic() - began < 2
        said = report.stderr.read()
        report.stderr.close()
        assert b"Traceback" not in said
        assert sorted(open_path.iterdir()) == before
        if not takes:
            _wait_for_end(blocked)
    _wait_for_end(blocked)


def _blocked_child(report):
    """Wait until a child of a report waits for the mount, as its process does not; return it."""
    children = Path(f"/proc/{report.pid}/task/{report.pid}/children")
    until = time.monotonic() + 100
    while report.poll() is None and time.monotonic() < until:
        for child in children.read_text().split():
            if any(word in _stack(child) for word in ("fuse", "d_alloc_parallel")):
                return child
        time.sleep(0.01)
    raise AssertionError(report.stderr.read())


def _wait_for_end(pid):
    until = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and not _is_dead(pid):
        assert time.monotonic() < until
        time.sleep(0.01)


def _stack(pid):
    try:
        return Path(f"/proc/{pid}/stack").read_text()
    except OSError:
        return ""


def _is_dead(pid):
    """Tell whether only an init that does not reap keeps a process listed."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
