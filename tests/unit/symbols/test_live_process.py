import mmap
import os
import time
from pathlib import Path

import pytest

from builders.command_line import running
from prospect.symbols.live_process import live_process, mapped_file_links


def test_this_process_lives_under_its_own_root() -> None:
    process = live_process(os.getpid(), 0.0)
    assert process
    assert process.pid == os.getpid()
    assert process.owner == os.geteuid()
    assert not process.has_other_root
    assert abs(process.started_at - time.time()) < 3600
    assert Path(os.fsdecode(process.root)).samefile("/")


@pytest.mark.parametrize("pid", [0, -1, 2**30])
def test_what_is_no_process_is_none(pid: int) -> None:
    assert live_process(pid, 0.0) is None


def test_a_process_that_started_later_has_inherited_the_number() -> None:
    with running(["sleep", "60"]) as child:
        assert live_process(child.pid, time.time() - 100) is None
        assert live_process(child.pid, time.time() + 100)


@pytest.mark.skipif(os.geteuid() != 0, reason="links to mapped files need privilege")
@pytest.mark.parametrize("name", ["plain", "with space", "with\nline", "ends (deleted)"])
@pytest.mark.parametrize("recorded_as_deleted", [False, True])
def test_a_mapped_file_is_found_after_it_was_deleted(
    tmp_path: Path, name: str, recorded_as_deleted: bool
) -> None:
    path = tmp_path / name
    path.write_bytes(b"content")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
        path.unlink()
        shown = os.fsencode(path) + b" (deleted)" * recorded_as_deleted
        links = list(mapped_file_links(live_process(os.getpid(), 0.0), shown))
        assert [Path(os.fsdecode(link)).read_bytes() for link in links] == [b"content"]


def test_a_file_that_is_not_mapped_has_no_link(tmp_path: Path) -> None:
    process = live_process(os.getpid(), 0.0)
    assert list(mapped_file_links(process, os.fsencode(tmp_path / "none"))) == []
