"""What all tests share: golden files, how properties are tried, and that none asks a server."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from builders.another_user import remove_copies
from builders.examples import CI, examples
from builders.s3_server import S3Server
from prospect.columns.process import start_numpy
from prospect.version import __version__

pytest_plugins = ("builders.merged_cases",)
TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden"
# The version that golden files name. A report names the program's, which changes with a release.
GOLDEN_VERSION = b"0.1.0"
OWN_VERSION = re.compile(rb"([Pp]rospect:? )" + re.escape(__version__).encode() + rb"\b")
# What takes long and seldom fails by itself: scripts/check --all runs it. Of the fuzz tests, the
# simulations, the comparisons with other readers and the browsers, one each is not here.
NIGHTLY = frozenset(
    [
        "fuzz/test_archive_fuzz.py",
        "fuzz/test_campaign.py",
        "fuzz/test_eh_frame_fuzz.py",
        "fuzz/test_events_fuzz.py",
        "fuzz/test_foreign_fuzz.py",
        "fuzz/test_frame_rows_fuzz.py",
        "fuzz/test_map_files_fuzz.py",
        "fuzz/test_scoped_names_fuzz.py",
        "live/test_every_runtime.py",
        "live/test_many_threads.py",
        "live/test_notebook.py",
        "property/test_conservation.py",
        "property/test_frame_programs.py",
        "property/test_spaces_world.py",
        "unit/elf/test_eh_frame_oracle.py",
        "unit/elf/test_frame_rows_oracle.py",
        "unit/lines/test_lines_oracle.py",
        "unit/symbols/test_bounds_oracle.py",
        "unit/symbols/test_demangle_oracle.py",
        "unit/assembly/test_counter_time.py",
        "unit/estimate/test_alias_alarm.py",
        "unit/estimate/test_diff_simulation.py",
        "unit/estimate/test_false_discovery.py",
        "unit/estimate/test_ranks.py",
        "unit/live/test_flat_memory.py",
        "unit/render/test_diff_in_browser.py",
        "unit/render/test_fleet_in_browser.py",
        "unit/render/test_html_access.py",
        "unit/render/test_html_code_in_browser.py",
        "unit/render/test_html_figures.py",
        "unit/render/test_html_narrow.py",
        "unit/render/test_view_in_browser.py",
        "unit/web/test_browser.py",
        "unit/spaces/test_many_mappings.py",
        "unit/store/test_killed_writer.py",
    ]
)

# What a shell without job control starts behind a `&` ignores the first two, what nohup starts the
# third, and so do all that these start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Debian's libdebuginfod-common sets it for every login: no test asks a server but its own.
os.environ.pop("DEBUGINFOD_URLS", None)

# As every command does: with other vector units or threads, a sum has another last digit than the
# same sum of a command that runs as a process.
start_numpy()

# What is read of a file for one test is kept for all of a run, and apart from the user's own. Go
# keeps what it compiled there too, for longer.
OWN_CACHE = "" if "PYTEST_XDIST_WORKER" in os.environ else tempfile.mkdtemp(prefix="prospect-")
if OWN_CACHE:
    os.environ.setdefault("GOCACHE", str(Path.home() / ".cache/go-build"))
    os.environ["XDG_CACHE_HOME"] = OWN_CACHE

# A report on a terminal waits for nobody here.
os.environ["PAGER"] = "cat"


# No example has a time limit: a loaded machine takes any time. In CI the examples are always the
# same, so that a run fails by what was changed; by hand they are new ones, and four times as many.
settings.register_profile(
    "prospect",
    max_examples=examples(100),
    deadline=None,
    derandomize=CI,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("prospect")


def pytest_addoption(parser):
    parser.addoption(
        "--rewrite-golden",
        action="store_true",
        help="write what the tests got over the golden files; read the diff before keeping it",
    )


def pytest_ignore_collect(collection_path, config):
    """Leave out whole files that would be deselected: importing them takes a second a worker."""
    if "not nightly" not in config.option.markexpr or TESTS not in collection_path.parents:
        return None
    return collection_path.relative_to(TESTS).as_posix() in NIGHTLY or None


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep the objects of thousands of tests out of every later garbage collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items):
    for item in items:
        if "golden" in getattr(item, "fixturenames", ()):
            item.add_marker("golden")
        if item.path.relative_to(TESTS).as_posix() in NIGHTLY:
            item.add_marker("nightly")


def pytest_sessionfinish():
    remove_copies()


def pytest_unconfigure():
    if OWN_CACHE:
        shutil.rmtree(OWN_CACHE, ignore_errors=True)


@pytest.fixture(scope="session", name="s3_server_of_all")
def _s3_server_of_all():
    server = S3Server()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def s3_server(s3_server_of_all, monkeypatch, tmp_path):
    """Have an empty bucket, with credentials in the environment and a cache of one's own."""
    s3_server_of_all.reset()
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in s3_server_of_all.environment.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return s3_server_of_all


@pytest.fixture
def install_plugin(tmp_path, monkeypatch):
    """Install a package whose module has a function `run`, as pip writes down what it adds."""
    site = tmp_path / "site-packages"
    monkeypatch.syspath_prepend(str(site))

    def installed(group: str, name: str, code: str, package: str = "prospect-test") -> None:
        module = package.replace("-", "_")
        info = site / f"{module}-1.dist-info"
        info.mkdir(parents=True)
        (site / f"{module}.py").write_text(code)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}:run\n")
        monkeypatch.delitem(sys.modules, module, raising=False)

    return installed


@pytest.fixture
def golden(request):
    """Compare bytes with tests/golden/NAME, or write them there with --rewrite-golden.

    Where they name this version of Prospect, the file names GOLDEN_VERSION.
    """

    def check(name: str, got: bytes) -> None:
        path = GOLDEN / name
        got = OWN_VERSION.sub(rb"\g<1>" + GOLDEN_VERSION, got)
        if request.config.getoption("--rewrite-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(got)
        assert path.exists(), f"{path} is missing: python -m pytest --rewrite-golden"
        assert got.decode("utf-8", "surrogateescape") == path.read_bytes().decode(
            "utf-8", "surrogateescape"
        ), f"{name} differs; if that is meant: python -m pytest --rewrite-golden"

    return check
