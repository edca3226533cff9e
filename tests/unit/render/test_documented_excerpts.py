import re
from pathlib import Path

import pytest

from prospect.profile.naming import NameSource
from prospect.render.csv import COLUMNS

ROOT = Path(__file__).parents[3]
REPORT = (ROOT / "docs" / "report.md").read_text()
SCHEMA = (ROOT / "docs" / "schema.md").read_text()
GOLDEN = [
    (ROOT / "tests" / "golden" / "report" / name).read_text()
    for name in (
        "qsort_v2.txt",
        "qsort_vk.txt",
        "qsort_sorted.txt",
        "interrupted_v4.txt",
        "sample_accounting.txt",
        "disassembled.txt",
        "source_lines.txt",
    )
]


@pytest.mark.parametrize("excerpt", re.findall(r"```text\n(.*?)```", REPORT, re.DOTALL))
def test_an_excerpt_is_what_the_program_writes(excerpt):
    assert any(excerpt in report for report in GOLDEN)


def test_every_csv_column_and_name_source_is_documented():
    for name in (*COLUMNS, *(source.name for source in NameSource)):
        assert f"`{name}`" in SCHEMA


def test_every_counter_label_is_documented():
    statistics = GOLDEN[0].split("Statistics of Run")[1].split("Extrapolated")[0]
    labels = re.findall(r"([A-Z][\w /-]*?):", statistics)
    assert len(labels) > 20
    for label in labels:
        assert label in REPORT.split("| counter |")[1], label
