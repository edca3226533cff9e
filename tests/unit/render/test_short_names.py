"""Names of functions keep what tells them from others, in columns of any width."""

import json
import random
import shutil
import subprocess
import time
from importlib.resources import files
from pathlib import Path

import pytest

from prospect.render.escape import display_width
from prospect.render.name_parts import short_name, short_names

TABLE = json.loads(Path(__file__).with_name("short_names.json").read_text("utf-8"))
PHP = "/usr/lib/libphp8.2.so.1"


@pytest.mark.parametrize(("name", "width", "short"), TABLE)
def test_what_says_least_is_dropped_first(name, width, short):
    assert short_name(name, width, "/usr/bin/php8.2") == short
    assert len(short) <= width


@pytest.mark.skipif(not shutil.which("node"), reason="needs Node (Debian: nodejs)")
def test_pages_shorten_names_alike():
    script = files("prospect.render.html").joinpath("assets", "names.js").read_text("utf-8")
    script += """
    const rows = JSON.parse(require("fs").readFileSync(0));
    const short = ([name, width]) => shortName(name, width, "/usr/bin/php8.2");
    console.log(JSON.stringify(rows.map(short)));
    """
    given = json.dumps(TABLE).encode()
    done = subprocess.run(["node", "-e", script], input=given, capture_output=True, check=True)
    assert json.loads(done.stdout) == [short for _, _, short in TABLE]


def test_a_name_that_fits_is_whole():
    name = "std::vector<int>::push_back(int&&)"
    assert short_name(name, len(name)) == name


def test_a_function_without_a_name_has_its_file_and_number():
    name = "zend_a_function_of_php->zend_another_one [fn 304 of 357]"
    shown = [short_name(name, width, PHP) for width in (60, 40, 30, 28, 22, 14)]
    assert shown == [
        name,
        "[in libphp8.2.so.1, fn 304 of 357]",
        "[in libphp8.2, fn 304 of 357]",
        "[in libphp, fn 304 of 357]",
        "[fn 304 of 357]",
        "[fn 304]",
    ]
    assert (
        short_name("zend_exported_first->zend_exported_second", 30, PHP)
        == "[after zend_exported_first]"
    )


def test_rows_that_would_be_equal_are_told_apart():
    names = [
        "void foo::sort<int, std::less<int> >(int*)",
        "void foo::sort<double, std::less<double> >(double*)",
        "malloc",
    ]
    assert short_names(names, 20) == ["foo::sort int", "foo::sort double", "malloc"]
    assert short_names(names, 13) == ["foo::sort int", "sort double", "malloc"]
    same = ["std::vector<int>::push_back(int const&)"] * 2
    assert short_names(same, 22) == ["std::vector::push_back"] * 2


def test_any_text_is_cut_to_any_width_in_time():
    chance = random.Random(3)
    pieces = [
        "a::",
        "<",
        ">",
        "(",
        ")",
        "->",
        " ",
        "operator",
        "[",
        "]",
        "{",
        ".part",
        "&",
        "関数",
        "/x:1",
    ]
    hostile = ["".join(chance.choices(pieces, k=chance.randrange(40))) for _ in range(300)]
    hostile += [piece * 3000 for piece in pieces]
    begin = time.thread_time()
    for name in hostile:
        for width in (4, 13, 48):
            assert display_width(short_name(name, width, PHP)) <= width
    assert time.thread_time() - begin < 5
