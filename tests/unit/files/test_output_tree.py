"""Trees of files whose names are from debug information: nothing leaves the directory."""

import os

import pytest

from prospect.errors import RenderError
from prospect.files.output_tree import OutputTree

MARK = b"Marked: "


def put(directory, path, *, is_public=True):
    with OutputTree(str(directory), MARK) as tree:
        return tree.write(path, lambda out: out.write(MARK + b"text"), is_public=is_public)


def files_below(directory):
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/usr/src/a.c", "usr/src/a.c"),
        ("relative//./b.c", "relative/b.c"),
        ("../../../etc/passwd", "%../%../%../etc/passwd"),
        ("/x/../../../y", "x/%../%../%../y"),
    ],
)
def test_a_path_stays_below_the_directory(tmp_path, path, place):
    assert put(tmp_path / "out", path) == ""
    assert files_below(tmp_path) == {f"out/{place}"}


def test_no_link_is_followed(tmp_path):
    outside, out = tmp_path / "outside", tmp_path / "out"
    outside.mkdir()
    out.mkdir()
    (outside / "a.c").write_bytes(MARK + b"theirs")
    (out / "src").symlink_to(outside)
    (out / "a.c").symlink_to(outside / "a.c")
    assert put(out, "src/b.c")
    assert put(out, "a.c")
    assert files_below(outside) == {"a.c"}
    assert (outside / "a.c").read_bytes() == MARK + b"theirs"


def test_only_annotations_are_replaced(tmp_path):
    (tmp_path / "source.c").write_text("int x;")
    assert put(tmp_path, "source.c") == "a file that is not an annotation is already there"
    assert (tmp_path / "source.c").read_text() == "int x;"
    assert put(tmp_path, "other.c") == ""
    assert put(tmp_path, "other.c") == ""
    os.mkfifo(tmp_path / "fifo.c")
    assert put(tmp_path, "fifo.c")


@pytest.mark.parametrize("path", ["", "/", "a\0b", "x" * 300, "/".join("y" * 200)])
def test_a_name_that_cannot_be_is_said(tmp_path, path):
    assert put(tmp_path, path)
    assert files_below(tmp_path) == set()


def test_what_others_may_not_read_stays_so(tmp_path):
    put(tmp_path, "secret.c", is_public=False)
    assert (tmp_path / "secret.c").stat().st_mode & 0o777 == 0o600


def test_a_failed_write_leaves_nothing(tmp_path):
    def fail(out):
        out.write(MARK)
        raise RenderError("the disk is full")

    with OutputTree(str(tmp_path), MARK) as tree:
        assert tree.write("a.c", fail, is_public=True) == "the disk is full"
    assert files_below(tmp_path) == set()


def test_a_directory_that_cannot_be_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RenderError, match="cannot write to the directory"):
        OutputTree(str(tmp_path / "file"), MARK)
