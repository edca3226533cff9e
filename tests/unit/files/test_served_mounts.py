from pathlib import Path

import pytest

from prospect.files import system_files
from prospect.files.system_files import ServedMounts, served_mount_points

LINE = "36 35 0:{} / {} rw,nosuid shared:1 - {} {} rw,user_id={},group_id=0,allow_other\n"


def lines(*rows: tuple[str, str, int]) -> bytes:
    return "".join(
        LINE.format(number, point, kind, "server", user)
        for number, (point, kind, user) in enumerate(rows)
    ).encode()


def test_only_what_another_user_serves_is_kept_away_from() -> None:
    text = lines(
        ("/home/a/mnt", "fuse.sshfs", 1000),
        ("/media/roots", "fuse.sshfs", 0),
        ("/media/mine", "fuse", 500),
        ("/", "ext4", 1000),
        (r"/two\040words\134", "fuseblk", 1001),
    )
    assert served_mount_points(text, 500) == (b"/home/a/mnt", b"/two words\\")


@pytest.mark.parametrize("text", [b"", b"\n - \n", b"1 2 3 4 - fuse", b"\xff" * 50])
def test_what_is_no_mount_table_has_no_mounts(text: bytes) -> None:
    assert served_mount_points(text, 0) == ()


def test_paths_below_are_held_and_neighbours_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    text = lines(("/a/b", "fuse", 12345))
    read = []

    def system_file(path: str) -> bytes:
        read.append(Path(path))
        return text

    monkeypatch.setattr(system_files, "read_system_file", system_file)
    mounts = ServedMounts()
    assert mounts.hold(b"/a/b")
    assert mounts.hold(b"/a/b/c/d", 17)
    assert not mounts.hold(b"/a/bc", 17)
    assert not mounts.hold(b"/a")
    assert read == [Path("/proc/self/mountinfo"), Path("/proc/17/mountinfo")]
