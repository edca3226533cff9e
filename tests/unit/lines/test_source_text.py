import os

from prospect.lines.source_files import read_source


def ours(*paths):
    return {str(path): {os.geteuid()} for path in paths}


def test_lines_that_are_there_are_read(tmp_path):
    path = tmp_path / "a.c"
    path.write_text("int a;\n\tint b;   \n\nint d;")
    wanted = [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (0, 0), (-1, 1), (1, 1)]
    assert read_source([str(path), "relative.c"], wanted, ours(path)) == {
        (0, 1): "int a;",
        (0, 2): "        int b;",
        (0, 3): "",
        (0, 4): "int d;",
    }


def test_bytes_that_are_no_text_and_long_lines_do_no_harm(tmp_path):
    path = tmp_path / "a.c"
    path.write_bytes(b"\xff\x1b[31m\n" + b"x" * 100_000)
    found = read_source([os.fspath(path)], [(0, 1), (0, 2)], ours(path))
    assert found[0, 1] == "\udcff\x1b[31m"
    assert len(found[0, 2]) == 400


def test_a_fifo_a_device_and_a_huge_file_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    files = [str(tmp_path / "fifo"), "/dev/zero", str(tmp_path / "huge"), "/no/such\0file"]
    assert read_source(files, [(row, 1) for row in range(len(files))], ours(*files)) == {}
