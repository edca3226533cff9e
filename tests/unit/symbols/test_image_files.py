import os
import zlib
from pathlib import Path

import pytest

from builders.elf import Symbol, code, debug_link_section, elf_file
from prospect.files import untrusted_open
from prospect.files.budget import of_others
from prospect.files.rights import EVERYBODY
from prospect.profile.naming import NameSource
from prospect.symbols.images import image_files
from prospect.symbols.images.debug_files import kept_for
from prospect.symbols.images.image_files import FoundImage, find_debug_image, find_image, open_image
from prospect.symbols.live_process import LiveProcess
from prospect.symbols.objects import Missing, ObjectKey

ID, OTHER_ID = bytes(range(1, 21)), bytes(range(2, 22))
SYMBOLS = [Symbol("function", 0x1000, 16)]


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the machine's own debug files and caches out."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CACHE_HOME", "PROSPECT_NO_CACHE", "DEBUGINFOD_CACHE_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(image_files, "DEBUG_ROOT", os.fsencode(tmp_path / "debug"))
    return tmp_path


def write(path: Path, content: bytes) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return os.fsencode(path)


def image(build_id: bytes | None = ID, **more: object) -> bytes:
    return elf_file(sections=[code(), *more.pop("sections", ())], build_id=build_id, **more)


def reason(key: ObjectKey, recorded_until: float = 0.0) -> NameSource:
    found = find_image(key, [], recorded_until)
    assert isinstance(found, Missing)
    assert found.note
    return found.reason


def test_the_same_build_id_is_the_same_image(places: Path) -> None:
    path = write(places / "a b\n", image())
    assert isinstance(find_image(ObjectKey(path, ID), [], 0.0), FoundImage)


def test_another_build_id_is_no_match(places: Path) -> None:
    assert reason(ObjectKey(write(places / "a", image()), OTHER_ID)) == NameSource.NO_MATCH


def test_an_image_without_the_recorded_build_id_is_no_match(places: Path) -> None:
    assert reason(ObjectKey(write(places / "a", image(None)), ID)) == NameSource.NO_MATCH


def test_a_short_build_id_may_be_recorded_filled_up_with_zeros(places: Path) -> None:
    path = write(places / "a", image(ID[:8]))
    assert isinstance(find_image(ObjectKey(path, ID[:8] + bytes(12)), [], 0.0), FoundImage)


def test_without_a_build_id_the_inode_decides(places: Path) -> None:
    path = write(places / "a", image())
    inode = Path(os.fsdecode(path)).stat().st_ino
    assert isinstance(find_image(ObjectKey(path, inode=inode), [], 0.0), FoundImage)
    assert reason(ObjectKey(path, inode=inode + 1)) == NameSource.NO_MATCH


def test_a_file_written_after_the_recording_is_no_match_though_it_has_the_inode(
    places: Path,
) -> None:
    path = write(places / "a", image())
    status = Path(os.fsdecode(path)).stat()
    key = ObjectKey(path, inode=status.st_ino)
    assert reason(key, status.st_mtime - 10) == NameSource.NO_MATCH
    assert isinstance(find_image(key, [], status.st_mtime + 10), FoundImage)


def test_each_failure_has_its_reason(places: Path) -> None:
    os.mkfifo(places / "fifo")
    assert reason(ObjectKey(os.fsencode(places / "none"))) == NameSource.NO_FILE
    assert reason(ObjectKey(b"relative/path")) == NameSource.NO_FILE
    assert reason(ObjectKey(os.fsencode(places / "fifo"))) == NameSource.NO_ELF
    assert reason(ObjectKey(write(places / "text", b"#!/bin/sh\n"))) == NameSource.NO_ELF
    assert reason(ObjectKey(write(places / "empty", b""))) == NameSource.NO_ELF


def test_a_copy_that_perf_kept_stands_in_for_a_replaced_file(places: Path) -> None:
    path = write(places / "a", image(OTHER_ID))
    digits = ID.hex()
    write(places / "home/.debug/.build-id" / digits[:2] / digits[2:] / "elf", image())
    found = find_image(ObjectKey(path, ID), [], 0.0)
    assert isinstance(found, FoundImage)
    assert found.image.build_id == ID


def cache(places: Path, name: str) -> Path:
    return places / "home/.cache" / name


def perfs_copy(places: Path, name: str) -> Path:
    return places / "home/.debug/.build-id" / ID.hex()[:2] / ID.hex()[2:] / name


COPIES = {
    "perf": lambda places: perfs_copy(places, "elf"),
    "server": lambda places: cache(places, f"prospect/{ID.hex()}.executable"),
    "elfutils": lambda places: cache(places, f"debuginfod_client/{ID.hex()}/executable"),
    "target": lambda _: Path(kept_for("there").path) / f"{ID.hex()}.executable",
}
DEBUG_COPIES = {
    "perf": lambda places: perfs_copy(places, "debug"),
    "server": lambda places: cache(places, f"prospect/{ID.hex()}.debuginfo"),
    "elfutils": lambda places: cache(places, f"debuginfod_client/{ID.hex()}/debuginfo"),
}


def keep(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True)
    for directory in path.parents:
        directory.chmod(0o700)
        if directory.name == "home":
            break
    write(path, content)
    path.chmod(0o600)


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_from_elsewhere_grants_nobodys_rights(places: Path, copy: str) -> None:
    keep(COPIES[copy](places), image())
    found = find_image(ObjectKey(b"/gone", ID), [], 0.0, target="there")
    assert (found.file.owner, found.file.speaks_for) == (EVERYBODY, EVERYBODY)
    # Nor does the debug file of a package that the copy chooses by its build id.
    debug = image(symbols=SYMBOLS)
    write(places / "debug/.build-id" / ID.hex()[:2] / f"{ID.hex()[2:]}.debug", debug)
    assert find_debug_image(found, b"/bin").file.speaks_for == EVERYBODY


@pytest.mark.parametrize("copy", DEBUG_COPIES)
def test_a_debug_file_from_elsewhere_grants_nobodys_rights(places: Path, copy: str) -> None:
    keep(DEBUG_COPIES[copy](places), image(symbols=SYMBOLS))
    found = open_image(write(places / "a", image()))
    assert found.file.speaks_for == os.geteuid()
    debug = find_debug_image(found, b"/bin")
    assert (debug.file.owner, debug.file.speaks_for) == (EVERYBODY, EVERYBODY)


def test_what_a_target_sent_serves_its_own_recordings_only(places: Path) -> None:
    keep(COPIES["target"](places), image())
    key = ObjectKey(b"/gone", ID)
    assert isinstance(find_image(key, [], 0.0, target="there"), FoundImage)
    for other in ("", "elsewhere", "root@there"):
        assert isinstance(find_image(key, [], 0.0, target=other), Missing)
    # It is held against its name.
    keep(Path(kept_for("liar").path) / f"{ID.hex()}.executable", image(OTHER_ID))
    assert isinstance(find_image(key, [], 0.0, target="liar"), Missing)


def test_a_deleted_file_is_found_under_its_name_only_if_it_is_the_same(places: Path) -> None:
    path = write(places / "a", image())
    assert isinstance(find_image(ObjectKey(path + b" (deleted)", ID), [], 0.0), FoundImage)
    assert reason(ObjectKey(path + b" (deleted)", OTHER_ID)) == NameSource.NO_MATCH


def test_in_another_root_the_file_there_comes_first(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(places / "lib/a", image(None, symbols=SYMBOLS))
    write(places / "root" / path.decode().lstrip("/"), image(ID))
    process = LiveProcess(pid=1, own_pid=1, owner=0, started_at=0.0, has_other_root=True)
    monkeypatch.setattr(LiveProcess, "root", os.fsencode(places / "root"))
    assert find_image(ObjectKey(path), [process], 0.0).image.build_id == ID


class TestDebugFiles:
    def found(self, places: Path, **more: object) -> FoundImage:
        found = open_image(write(places / "bin/a", image(**more)))
        assert found
        return found

    def test_by_build_id(self, places: Path) -> None:
        digits = ID.hex()
        write(places / "debug/.build-id" / digits[:2] / f"{digits[2:]}.debug", image())
        assert find_debug_image(self.found(places), b"/bin")

    def test_a_file_of_another_build_id_is_not_taken(self, places: Path) -> None:
        digits = ID.hex()
        write(places / "debug/.build-id" / digits[:2] / f"{digits[2:]}.debug", image(OTHER_ID))
        assert find_debug_image(self.found(places), b"/bin") is None

    @pytest.mark.parametrize("place", ["bin/a.debug", "bin/.debug/a.debug", "debug{}/bin/a.debug"])
    def test_by_link_with_the_right_checksum(self, places: Path, place: str) -> None:
        debug = image(None, symbols=SYMBOLS)
        write(places / place.format(places), debug)
        link = debug_link_section("a.debug", zlib.crc32(debug))
        found = self.found(places, build_id=None, sections=[link])
        assert find_debug_image(found, os.fsencode(places / "bin"))

    def test_not_with_a_wrong_checksum(self, places: Path) -> None:
        debug = image(None, symbols=SYMBOLS)
        write(places / "bin/a.debug", debug)
        link = debug_link_section("a.debug", zlib.crc32(debug) ^ 1)
        found = self.found(places, build_id=None, sections=[link])
        assert find_debug_image(found, os.fsencode(places / "bin")) is None

    def test_a_link_to_the_image_itself_is_none(self, places: Path) -> None:
        found = self.found(places, sections=[debug_link_section("a", 0)])
        assert find_debug_image(found, os.fsencode(places / "bin")) is None

    def test_not_with_another_build_id_though_the_checksum_is_right(self, places: Path) -> None:
        debug = image(OTHER_ID, symbols=SYMBOLS)
        write(places / "bin/a.debug", debug)
        found = self.found(places, sections=[debug_link_section("a.debug", zlib.crc32(debug))])
        assert find_debug_image(found, os.fsencode(places / "bin")) is None


class TestDownloaded:
    """What a server sent lies in our cache, or in that of elfutils' client."""

    def find(self, places: Path) -> NameSource | None:
        path = write(places / "bin" / "program", image())
        found = find_image(ObjectKey(path, ID), [], 0.0)
        debug = find_debug_image(found, b"/bin")
        return debug and debug.source

    @pytest.fixture(autouse=True)
    def variables(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("XDG_CACHE_HOME", "DEBUGINFOD_CACHE_PATH", "PROSPECT_NO_CACHE"):
            monkeypatch.delenv(name, raising=False)

    @pytest.mark.parametrize(
        ("variables", "place"),
        [
            ({}, "home/.cache/debuginfod_client"),
            ({"XDG_CACHE_HOME": "cache"}, "cache/debuginfod_client"),
            ({"DEBUGINFOD_CACHE_PATH": "client", "XDG_CACHE_HOME": "cache"}, "client"),
            ({}, "home/.debuginfod_client_cache"),
        ],
    )
    def test_the_clients_cache_is_where_its_variables_say(
        self,
        places: Path,
        monkeypatch: pytest.MonkeyPatch,
        variables: dict[str, str],
        place: str,
    ) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, str(places / value))
        assert self.find(places) is None
        write(places / place / ID.hex() / "debuginfo", image(symbols=SYMBOLS))
        assert self.find(places) == NameSource.DEBUG_SERVER

    def test_our_cache_is_asked_too_if_it_is_ours_alone(self, places: Path) -> None:
        kept = places / "home" / ".cache" / "prospect"
        write(kept / f"{ID.hex()}.debuginfo", image(symbols=SYMBOLS))
        kept.chmod(0o700)
        assert self.find(places) == NameSource.DEBUG_SERVER
        kept.chmod(0o777)
        assert self.find(places) is None

    def test_another_build_id_is_not_believed(self, places: Path) -> None:
        client = places / "home" / ".cache" / "debuginfod_client"
        write(client / ID.hex() / "debuginfo", image(OTHER_ID, symbols=SYMBOLS))
        assert self.find(places) is None

    def test_a_debug_file_of_the_machine_comes_first(self, places: Path) -> None:
        client = places / "home" / ".cache" / "debuginfod_client"
        write(client / ID.hex() / "debuginfo", image(symbols=SYMBOLS))
        digits = ID.hex()
        write(
            places / "debug" / ".build-id" / digits[:2] / f"{digits[2:]}.debug",
            image(symbols=SYMBOLS),
        )
        assert self.find(places) == NameSource.DEBUG_FILE

    def test_an_image_that_is_gone_may_have_been_sent(self, places: Path) -> None:
        client = places / "home" / ".cache" / "debuginfod_client"
        write(client / ID.hex() / "executable", image())
        assert isinstance(find_image(ObjectKey(b"/gone", ID), [], 0.0), FoundImage)


@pytest.mark.parametrize(
    ("recorded", "whole"),
    [
        (ID, ID),
        (ID[:19] + b"\0", ID[:19] + b"\0"),
        (ID[:16] + bytes(4), ID[:16]),
        (ID[:8] + bytes(12), ID[:8]),
        (ID[:8], ID[:8]),
        (bytes(20), b""),
        (b"", b""),
    ],
)
def test_zeros_that_fill_up_a_build_id_are_no_part_of_it(recorded: bytes, whole: bytes) -> None:
    assert image_files.whole_build_id(recorded) == whole


def test_a_file_below_the_sysroot_comes_before_the_one_here(places: Path) -> None:
    path = write(places / "a", image())
    write(places / "root" / path.decode()[1:], image())
    found = find_image(ObjectKey(path, ID), [], 0.0, sysroot=os.fsencode(places / "root"))
    assert found.file.root == os.fsencode(places / "root")
    # It may be of anybody: it grants no rights, and its tables are kept for nobody else's file.
    assert (found.file.owner, found.file.speaks_for) == (EVERYBODY, EVERYBODY)


def test_a_file_below_the_sysroot_counts_as_memory_of_other_users(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever unpacked it here: root's own files count for nothing."""
    write(places / "root/usr/a", image())
    root = os.fsencode(places / "root")
    accounts = []
    hold = untrusted_open.hold_contents
    monkeypatch.setattr(
        untrusted_open,
        "hold_contents",
        lambda fd, account: accounts.append(account) or hold(fd, account=account),
    )
    assert isinstance(find_image(ObjectKey(b"/usr/a", ID), [], 0.0, sysroot=root), FoundImage)
    assert accounts == [of_others]


def test_another_file_below_the_sysroot_leaves_the_one_here(places: Path) -> None:
    path = write(places / "a", image())
    write(places / "root" / path.decode()[1:], image(OTHER_ID))
    root = os.fsencode(places / "root")
    assert find_image(ObjectKey(path, ID), [], 0.0, sysroot=root).file.root != root
    missing = find_image(ObjectKey(b"/none", ID), [], 0.0, sysroot=root)
    assert missing.reason == NameSource.NO_FILE
    Path(os.fsdecode(path)).unlink()
    missing = find_image(ObjectKey(path, ID), [], 0.0, sysroot=root)
    assert missing.reason == NameSource.NO_MATCH
    assert missing.sysroot == root
    shown = places / "root"
    assert missing.note == f"the file below {shown} has another build id than the recorded one"


def test_without_a_build_id_the_file_below_the_sysroot_is_meant(places: Path) -> None:
    """Inodes and times of another machine's files say nothing here."""
    write(places / "root/usr/bin/a", image(None))
    key, root = ObjectKey(b"/usr/bin/a", inode=5), os.fsencode(places / "root")
    assert isinstance(find_image(key, [], 1.0, sysroot=root), FoundImage)
    assert find_image(key, [], 1.0).reason == NameSource.NO_FILE


def test_no_link_leads_out_of_the_sysroot(places: Path) -> None:
    write(places / "secret", image())
    (places / "root/usr").mkdir(parents=True)
    (places / "root/usr/a").symlink_to(places / "secret")
    root = os.fsencode(places / "root")
    missing = find_image(ObjectKey(b"/usr/a", ID), [], 0.0, sysroot=root)
    assert isinstance(missing, Missing)
    assert missing.reason == NameSource.NO_FILE
    (places / "root/usr/b").symlink_to("../../secret")
    assert isinstance(find_image(ObjectKey(b"/usr/b", ID), [], 0.0, sysroot=root), Missing)


@pytest.mark.parametrize("target", ["/opt/a", "../opt/a", "../../../opt/a", "/opt/next"])
def test_a_link_below_the_sysroot_is_followed_as_its_own_programs_follow_it(
    places: Path, target: str
) -> None:
    write(places / "root/opt/a", image())
    (places / "root/opt/next").symlink_to("a")
    (places / "root/usr").mkdir()
    (places / "root/usr/a").symlink_to(target)
    root = os.fsencode(places / "root")
    found = find_image(ObjectKey(b"/usr/a", ID), [], 0.0, sysroot=root)
    assert isinstance(found, FoundImage)
    assert (found.file.root, found.file.owner) == (root, EVERYBODY)


def test_links_below_the_sysroot_that_go_round_end(places: Path) -> None:
    (places / "root/usr").mkdir(parents=True)
    (places / "root/usr/a").symlink_to("/usr/a")
    root = os.fsencode(places / "root")
    assert isinstance(find_image(ObjectKey(b"/usr/a", ID), [], 0.0, sysroot=root), Missing)


@pytest.mark.parametrize(
    "name", [f"debug/.build-id/{ID.hex()[:2]}/{ID.hex()[2:]}.debug", "usr/a.debug"]
)
def test_a_debug_file_below_the_sysroot_is_found(
    places: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_files, "DEBUG_ROOT", b"/debug")
    debug = image(symbols=SYMBOLS)
    link = debug_link_section("a.debug", zlib.crc32(debug))
    write(places / "root/usr/a", image(sections=[link]))
    write(places / "root" / name, debug)
    root = os.fsencode(places / "root")
    found = find_image(ObjectKey(b"/usr/a", ID), [], 0.0, sysroot=root)
    of = find_debug_image(found, b"/usr")
    assert of.source == NameSource.DEBUG_FILE
    assert (of.file.root, of.file.owner, of.file.speaks_for) == (root, EVERYBODY, EVERYBODY)


@pytest.fixture
def chosen(places: Path) -> Path:
    """A directory of debug files that a person chose."""
    directory = places / "chosen"
    directory.mkdir()
    return directory


def by_build_id(directory: Path, suffix: str = ".debug", build_id: bytes = ID) -> Path:
    digits = build_id.hex()
    return directory / ".build-id" / digits[:2] / (digits[2:] + suffix)


def test_a_chosen_directory_of_debug_files_comes_before_the_machines(
    places: Path, chosen: Path
) -> None:
    found = open_image(write(places / "a", image()))
    assert found
    for directory in (chosen, places / "debug"):
        write(by_build_id(directory), image(symbols=SYMBOLS))
    of = find_debug_image(found, b"/bin", os.fsencode(chosen))
    assert of
    assert of.file.path == os.fsencode(by_build_id(chosen))
    assert of.source == NameSource.DEBUG_FILE
    write(by_build_id(chosen), image(OTHER_ID, symbols=SYMBOLS))
    of = find_debug_image(found, b"/bin", os.fsencode(chosen))
    assert of
    assert of.file.path == os.fsencode(by_build_id(places / "debug"))


@pytest.mark.parametrize("place", ["bin/a.debug", "a.debug"])
def test_a_debug_link_is_followed_in_a_chosen_directory(
    places: Path, chosen: Path, place: str
) -> None:
    debug = image(None, symbols=SYMBOLS)
    link = debug_link_section("a.debug", zlib.crc32(debug))
    found = open_image(write(places / "a", image(None, sections=[link])))
    assert found
    write(chosen / place, debug)
    assert find_debug_image(found, b"/bin", os.fsencode(chosen))
    assert find_debug_image(found, b"/bin") is None
    write(chosen / place, debug + b"x")
    assert find_debug_image(found, b"/bin", os.fsencode(chosen)) is None


def test_a_program_by_its_build_id_in_a_chosen_directory_is_the_one_that_is_gone(
    chosen: Path,
) -> None:
    key = ObjectKey(b"/none", ID)
    write(by_build_id(chosen, ""), image())
    assert isinstance(find_image(key, [], 0.0, debug_dir=os.fsencode(chosen)), FoundImage)
    write(by_build_id(chosen, ""), image(OTHER_ID))
    assert isinstance(find_image(key, [], 0.0, debug_dir=os.fsencode(chosen)), Missing)
