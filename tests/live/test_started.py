"""The command `prospect` is isolated from what is meant for COMMAND, and hands it on unchanged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from builders.examples import nightly

pytestmark = [pytest.mark.live, pytest.mark.parallel]

LAUNCHER = Path(__file__).parents[2] / "scripts" / "prospect"
STRANGER = 23001
SHADOWED = ("enum", "json", "numpy", "prospect", "signal", "struct", "types")
# The first lines that pip writes, of a short path and of one that is long or has blanks; uv's.
FIRST_LINES = {
    "short": "#!{}\nimport prospect\n",
    "quoted": "#!/bin/sh\n'''exec' \"{}\" \"$0\" \"$@\"\n' '''\n",
    "uv": "#!/bin/sh\n'''exec' '{}' \"$0\" \"$@\"\n' '''\n",
}


def installed(directory, first_lines="short", python=sys.executable):
    directory.mkdir(exist_ok=True)
    launcher = directory / "prospect"
    launcher.write_text(LAUNCHER.read_text())
    launcher.chmod(0o755)
    (directory / "prospect-profiler").write_text(FIRST_LINES[first_lines].format(python))
    return str(launcher)


@pytest.fixture
def command(tmp_path):
    return installed(tmp_path / "bin")


def said(*words, **keywords):
    ran = subprocess.run(words, capture_output=True, timeout=60, check=False, **keywords)
    assert (ran.returncode, ran.stderr) == (0, b"")
    return ran.stdout


@pytest.mark.parametrize("first_lines", FIRST_LINES)
def test_the_interpreter_is_that_of_the_other_script(tmp_path, first_lines):
    python = sys.executable
    if first_lines != "short":
        python = tmp_path / "bin" / "of blanks"
        python.parent.mkdir()
        python.symlink_to(sys.executable)
        (tmp_path / "lib").symlink_to(Path(sys.prefix) / "lib")
        (tmp_path / "pyvenv.cfg").write_text((Path(sys.prefix) / "pyvenv.cfg").read_text())
    launcher = installed(tmp_path / "a b", first_lines, python)
    assert said(launcher, "--version").startswith(b"prospect ")
    (tmp_path / "link").symlink_to(launcher)
    assert said(str(tmp_path / "link"), "--version").startswith(b"prospect ")
    said("sh", "-c", f"cd '{tmp_path}/a b'; sh prospect --version")


@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONHOME": "/nonexistent"},
        {"PYTHONPATH": "shadow"},
        {"PYTHONOPTIMIZE": "2", "PYTHONWARNINGS": "error", "PYTHONDEVMODE": "1"},
        {"PYTHONVERBOSE": "1", "PYTHONINSPECT": "1", "PYTHONSTARTUP": "/nonexistent"},
        {"BASH_FUNC_module%%": "() { echo; }", "a.b": "1", "SHLVL": "7", "TWO": "lines\nof it"},
    ],
    ids=lambda variables: next(iter(variables)),
)
def test_the_environment_is_the_commands(tmp_path, command, variables):
    (tmp_path / "shadow").mkdir()
    for name in SHADOWED:
        (tmp_path / "shadow" / f"{name}.py").write_text("raise SystemExit('wrong')\n")
    # Neither PWD nor _: a shell adds them.
    environment = {"PATH": os.environ["PATH"], **variables}
    words = ["-V2", "-f", "report", "env", "-0"]
    shown = said(command, *words, env=environment, cwd=tmp_path)
    assert sorted(shown.split(b"\0")[:-1]) == sorted(
        f"{name}={value}".encode() for name, value in environment.items()
    )
    assert "env -0" in (tmp_path / "report").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
@pytest.mark.parametrize(
    ("home_of", "script_of", "runs"),
    [(STRANGER, 0, False), (0, 0, True), (STRANGER, STRANGER, True)],
)
def test_packages_of_another_users_home_do_not_run_as_root(tmp_path, home_of, script_of, runs):
    """What sudo does that keeps HOME, of an interpreter that is in no virtual environment."""
    home = tmp_path / "home"
    packages = home / f".local/lib/python{sysconfig.get_python_version()}/site-packages"
    packages.mkdir(parents=True)
    # A package's lines run as the interpreter starts; plug-ins would be found by the same path.
    (packages / "other.pth").write_text(f"import os; os.mkdir({str(tmp_path / 'ran')!r})\n")
    os.chown(home, home_of, home_of)
    command = installed(tmp_path / "bin", python=Path(sys.executable).resolve())
    os.chown(command, script_of, script_of)
    # That Python may lack Prospect.
    environment = {**os.environ, "HOME": str(home)}
    subprocess.run([command], env=environment, capture_output=True, timeout=60, check=False)
    assert (tmp_path / "ran").exists() == runs


@pytest.mark.parametrize(
    "ignored", [*nightly(()), ("SIGPIPE",), *nightly(("SIGPIPE", "SIGXFSZ", "SIGUSR1"))]
)
@pytest.mark.parametrize("words", [["-V2", "-f", "report"], ["stat", "-f", "report"]])
def test_signals_are_ignored_and_blocked_as_before(tmp_path, command, ignored, words):
    def prepare():
        for name in ("SIGPIPE", "SIGXFSZ", "SIGUSR1"):
            number = getattr(signal, name)
            signal.signal(number, signal.SIG_IGN if name in ignored else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])

    show = ["grep", "-E", "^Sig(Ign|Blk|Cgt)", "/proc/self/status"]
    keywords = {"preexec_fn": prepare, "restore_signals": False, "cwd": tmp_path}
    assert said(command, *words, *show, **keywords) == said(*show, **keywords)


def test_as_a_module_it_takes_none_from_the_working_directory(tmp_path):
    for name in {*SHADOWED} - {"enum", "prospect", "signal", "struct", "types"}:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('wrong')\n")
    words = [sys.executable, "-m", "prospect", "-V2", "-f", "report", "true"]
    said(*words, cwd=tmp_path)
    assert (tmp_path / "report").exists()


def test_a_stack_that_python_does_not_survive_on_is_named(command):
    words = ["sh", "-c", f"ulimit -Ss 64; exec {command} --version"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.count("\n") == 1
    assert "ulimit -s 8192" in ran.stderr
