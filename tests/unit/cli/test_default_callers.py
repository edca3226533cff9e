"""When `prospect COMMAND` records callers that nobody asked for."""

import os
from types import SimpleNamespace

import pytest

from prospect.cli import record
from prospect.cli.commands import PROFILE
from prospect.cli.option_parser import parse


@pytest.fixture
def has_callers(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "_LEAST_FREE_BYTES", 0)

    def has_callers(*words, to_a_file=False):
        settings, command = parse(PROFILE, [*words, "true"])
        reading, writing = os.pipe()
        file = os.open(tmp_path / "report", os.O_WRONLY | os.O_CREAT)
        try:
            target = SimpleNamespace(descriptor=file if to_a_file else writing)
            return record._has_callers(settings, command, target, file)
        finally:
            for descriptor in (reading, writing, file):
                os.close(descriptor)

    return has_callers


def test_a_report_that_is_read_at_once_has_callers(has_callers):
    assert has_callers()


@pytest.mark.parametrize(
    "words", [["-f", "report.txt"], ["--format", "json"], ["--sort", "program"], ["--classic"]]
)
def test_others_have_none(has_callers, words):
    assert not has_callers(*words)


def test_output_that_goes_into_a_file_has_none(has_callers):
    assert not has_callers(to_a_file=True)


def test_a_disk_with_little_room_gets_none(has_callers, monkeypatch):
    monkeypatch.setattr(record, "_LEAST_FREE_BYTES", 1 << 60)
    assert not has_callers()
