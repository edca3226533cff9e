"""Formats of other packages: the one that docs/plugins.md builds, and those that fail."""

from __future__ import annotations

import csv
import re
import struct
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from builders.pages import report_of
from builders.perfdata import USUAL, FileBuilder, RecordBuilder
from builders.profile import qsort_profile
from prospect.abi import constants as abi
from prospect.abi.attr import EventAttr, EventDescription
from prospect.assembly.raw.raw_records import RawRecords
from prospect.cli.commands import COMMANDS
from prospect.cli.main import main
from prospect.cli.option_parser import parse
from prospect.errors import PluginError, UsageError
from prospect.events.record_columns import RawData
from prospect.plugins import EVENTS, called, plugin
from prospect.render.registry import make_renderer

PAGE = (Path(__file__).parents[3] / "docs" / "plugins.md").read_text()
REPORT = next(command for command in COMMANDS if command.name == "report")


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a package as pip does: its module, and what pip writes down of its entry points."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def installed(project, module, code):
        (tmp_path / f"{module}.py").write_text(code)
        name, version = project["name"], project["version"]
        info = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        groups = "".join(
            f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
            for group, entries in project["entry-points"].items()
        )
        (info / "entry_points.txt").write_text(groups)
        monkeypatch.delitem(sys.modules, module, raising=False)

    return installed


@pytest.fixture
def markdown(install):
    """Install the very package of the page."""
    project = tomllib.loads(re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)[1])["project"]
    install(project, "prospect_markdown", re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1])


def broken(install, name="broken", package="prospect-broken", code="1 / 0\n"):
    entries = {"prospect.formats": {name: f"{package.replace('-', '_')}:write"}}
    project = {"name": package, "version": "1", "entry-points": entries}
    install(project, package.replace("-", "_"), code)


def written(name, **options):
    return report_of(qsort_profile(), name, **options).decode()


@pytest.mark.usefixtures("markdown")
def test_the_package_of_the_page_writes_its_table():
    lines = written("markdown").splitlines()
    assert lines[0].startswith("`qsort`, ")
    assert lines[4] == "| `my_compare` | `/home/hp/bench/qsort` | 0.566 |"
    assert len(lines) <= 4 + 10


@pytest.mark.usefixtures("markdown")
def test_a_level_chooses_what_the_tables_hold():
    assert "my_compare" in written("markdown", detail="2")
    assert written("markdown", detail="2") != written("markdown", detail="4")


@pytest.mark.usefixtures("markdown")
def test_the_command_line_knows_it():
    settings, _ = parse(REPORT, ["--format", "markdown"])
    assert settings.format == "markdown"
    with pytest.raises(UsageError, match="markdown"):
        parse(REPORT, ["--format", "nonsense"])


def test_without_it_the_format_is_unknown():
    with pytest.raises(UsageError, match="give one of text, json"):
        parse(REPORT, ["--format", "markdown"])
    with pytest.raises(UsageError, match="there is no format 'markdown'"):
        make_renderer("markdown")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("1 / 0\n", "ZeroDivisionError"),
        ("import no_such_module\n", "no_such_module"),
        ("def other(): pass\n", "AttributeError"),
        ("def write(report, out): report.table('nonsense')\n", "there is no table 'nonsense'"),
        ("def write(report, out): raise ValueError\n", "ValueError"),
    ],
)
def test_one_that_fails_is_named_with_its_package(install, code, says):
    broken(install, code=code)
    with pytest.raises(PluginError, match=f"broken, a plug-in of prospect-broken, .*{says}"):
        written("broken")


def test_its_report_is_text_instead(install, tmp_path, capfd):
    broken(install, code="def write(report, out):\n    out.write(b'half')\n    1 / 0\n")
    recording, target = tmp_path / "run.data", tmp_path / "report.txt"
    records = RecordBuilder(USUAL)
    samples = [records.sample(pid=5, tid=5, id=1, ip=0x1010, time=10**6 * i) for i in range(9)]
    attr = EventAttr(type=abi.PERF_TYPE_SOFTWARE, sample_type=USUAL, sample_period=10**6)
    event = EventDescription(attr, (1,), "cpu-clock")
    recording.write_bytes(FileBuilder([event], samples).file())
    status = main(["report", "--format", "broken", "-V4", "-f", str(target), str(recording)])
    assert status == 1
    assert "half" not in target.read_text()
    assert "Extrapolated Summary" in target.read_text()
    said = capfd.readouterr().err
    assert "plug-in of prospect-broken" in said
    assert "Traceback" not in said


def test_two_packages_of_one_name_are_refused(install):
    broken(install, package="prospect-one")
    broken(install, package="prospect-two")
    with pytest.raises(UsageError, match="several packages have it"):
        make_renderer("broken")


def test_a_name_of_ours_stays_ours(install):
    broken(install, name="csv")
    assert written("csv").startswith('"event"')


@pytest.mark.usefixtures("markdown")
def test_doctor_lists_it(capfd):
    main(["doctor"])
    assert re.search(r"plug-ins +format markdown \(prospect-markdown\)", capfd.readouterr().out)


def test_the_label_source_of_the_page_labels(install, tmp_path):
    install_block(install, 1)
    recording = tmp_path / "run.data"
    records = RecordBuilder(USUAL)
    samples = [records.sample(pid=5, tid=5, id=1, ip=0x1010, time=10**9 * i) for i in range(4)]
    attr = EventAttr(type=abi.PERF_TYPE_SOFTWARE, sample_type=USUAL, sample_period=10**6)
    recording.write_bytes(FileBuilder([EventDescription(attr, (1,), "x")], samples).file())
    target = tmp_path / "report.csv"
    words = ["--format", "csv", "-V4", "-m0", "-f", str(target)]
    assert main(["report", "--label", "seconds:2", *words, str(recording)]) == 0
    rows = csv.DictReader(target.read_text().splitlines())
    assert [row["label"] for row in rows] == ["0 s", "2 s"]


def test_the_event_source_of_the_page_decodes(install):
    install_block(install, 2)
    data = RawData(
        np.arange(2),
        np.array([0, 3, 6]),
        np.frombuffer(struct.pack("<IIIQxxxx", 16, 3, 1, 70) * 2, np.uint64),
    )
    raw = RawRecords(EventDescription(EventAttr(), (1,), "my_pmu//"), data, np.array([1]))
    columns = called(plugin(EVENTS, "my_pmu"), raw)
    assert columns["port"].tolist() == ["port 3"]
    assert columns["cycles waited"].tolist() == [70]


def install_block(install, number):
    """Install the package that the page builds as one of several."""
    projects = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    code = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[number]
    install(tomllib.loads(projects[number])["project"], re.match(r"# (\w+)\.py", code)[1], code)
