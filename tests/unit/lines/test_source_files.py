"""Where sources are looked for."""

import os

from prospect.lines.lines_limits import LARGEST_SOURCE_BYTES
from prospect.lines.source_files import SourcePlaces, find_source


def found_at(path, search=(), base=()):
    places = SourcePlaces(tuple(map(str, search)), tuple(map(str, base)))
    found = find_source(str(path), places, {os.geteuid()})
    return found.path if found else None


def test_search_directories_come_before_the_compilers_own(tmp_path):
    for name in ("build/src/a.c", "one/src/a.c", "two/src/a.c", "two/only.c"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")
    compiled = tmp_path / "build/src/a.c"
    search = [tmp_path / "one", tmp_path / "two"]
    assert found_at(compiled) == str(compiled)
    assert found_at(compiled, search) == str(compiled)
    assert found_at(compiled, search, [tmp_path / "build"]) == f"{tmp_path}/one/src/a.c"
    deeper = [tmp_path / "build", f"{tmp_path}/build/src/"]
    assert found_at(compiled, [tmp_path / "one/src"], deeper) == f"{tmp_path}/one/src/a.c"
    assert found_at("only.c", search) == f"{tmp_path}/two/only.c"
    assert found_at("/gone/only.c", search, ["/gone"]) == f"{tmp_path}/two/only.c"
    # A name that only begins alike is another directory.
    assert found_at("/gone2/only.c", search, ["/gone"]) is None


def test_a_path_does_not_lead_out_of_a_search_directory(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "secret.c").write_text("x\n")
    assert found_at("../secret.c", [tmp_path / "in"]) is None


def test_what_is_no_file_or_too_large_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "fifo.c")
    with (tmp_path / "large.c").open("wb") as file:
        file.truncate(LARGEST_SOURCE_BYTES + 1)
    assert found_at(tmp_path / "fifo.c") is None
    assert found_at(tmp_path / "large.c") is None
    assert found_at(tmp_path) is None
    assert found_at("relative.c") is None


def test_lines_have_no_ends_and_keep_their_bytes(tmp_path):
    path = tmp_path / "a.c"
    path.write_bytes(b"one\r\n\xff two\n\nlast")
    source = find_source(str(path), SourcePlaces(), {os.geteuid()})
    assert source.lines == ["one", "\udcff two", "", "last"]
    assert source.is_public == bool(path.stat().st_mode & 0o004)
    path.chmod(0o600)
    assert not find_source(str(path), SourcePlaces(), {os.geteuid()}).is_public
