"""Which functions are worth a row with all that they call, and which only pass time on."""

from __future__ import annotations

import pytest

from builders.stacks import profile_of_stacks
from prospect.estimate.finished_report import Report
from prospect.estimate.summary import summary
from prospect.figures.calls.own_code import is_anonymous, is_start
from prospect.figures.calls.spenders import MOST_SPENDERS
from prospect.profile.model import KIND_PYTHON

SYSTEM, KERNEL = "/usr/lib/x86_64-linux-gnu/libc.so.6", "[kernel.kallsyms]"


def rows_of(*stacks, kinds=()):
    report = Report(profile_of_stacks(stacks, kinds))
    return summary(report.events[0]).with_callees


def names_of(*stacks, kinds=()):
    return [row.name for row in rows_of(*stacks, kinds=kinds)]


def test_what_hides_behind_malloc_has_a_row_and_starts_have_none():
    start = f"_start __libc_start_main@{SYSTEM} main"
    rows = rows_of(
        (f"{start} concat malloc@{SYSTEM} _int_malloc@{SYSTEM}", 20),
        (f"{start} concat", 16),
        (f"{start} lookup memcmp@{SYSTEM}", 30),
        (f"{start} lookup", 34),
    )
    found = [(row.name, row.hits, row.is_own) for row in rows]
    assert found == [("lookup", 64, True), ("concat", 36, True), ("malloc", 20, False)]
    assert rows[1].share == pytest.approx(0.36)
    assert rows[2].end == "_int_malloc"
    assert rows[0].half_width_s > 0


def test_a_path_has_one_row_the_innermost_function_of_the_user():
    rows = rows_of(
        (
            f"main page titles get@/usr/lib/python3/dist-packages/orm.so load@{SYSTEM} a@{SYSTEM}",
            48,
        ),
        (
            f"main page titles get@/usr/lib/python3/dist-packages/orm.so load@{SYSTEM} b@{SYSTEM}",
            48,
        ),
        ("main other", 104),
    )
    assert next((row.name, row.end) for row in rows) == ("titles", "load")
    assert "page" not in [row.name for row in rows]
    assert "get" not in [row.name for row in rows]


def test_dispatchers_of_the_framework_have_no_row():
    loop = f"start_thread@{SYSTEM} run@{SYSTEM} handle@{SYSTEM}"
    assert names_of(
        (f"{loop} view query@{SYSTEM} send@{SYSTEM}", 60), (f"{loop} view", 20), ("main", 20)
    ) == [
        "view",
        "query",
    ]


def test_leaves_are_among_the_functions_by_own_time_already():
    assert names_of(("main work", 90), ("main idle", 10)) == []
    assert names_of(("main get expensive", 80), ("main local", 20)) == ["get"]


def test_without_code_of_the_user_the_system_s_is_shown():
    names = names_of(
        (f"main@{SYSTEM} compile@{SYSTEM} parse@{SYSTEM} x@{SYSTEM}", 40),
        (f"main@{SYSTEM} compile@{SYSTEM} expand@{SYSTEM} y@{SYSTEM}", 60),
    )
    assert names == ["compile", "expand", "parse"]


def test_a_kernel_frame_is_no_row_and_no_end():
    rows = rows_of(
        (f"main reads read@{SYSTEM} do_syscall_64@{KERNEL} vfs_read@{KERNEL}", 100),
        ("main b c", 50),
    )
    assert rows[0].name == "reads"
    assert not {"do_syscall_64", "vfs_read"} & {
        name for row in rows for name in (row.name, row.end)
    }


def test_recursion_counts_once():
    rows = rows_of(("main walk step walk step leaf", 50), ("main rest more", 50))
    assert max(row.hits for row in rows) == 50


def test_never_more_than_the_bound():
    stacks = [(f"main own{at} lib{at}@{SYSTEM}", 20 + at) for at in range(12)]
    assert len(rows_of(*stacks)) == MOST_SPENDERS


def test_without_callers_in_user_space_there_is_none():
    assert rows_of((f"read@{SYSTEM}", 50), ("work", 50)) == ()


def test_imports_have_a_row_whatever_they_run():
    kinds = [("/usr/lib/python3.11/x.py", KIND_PYTHON), ("/home/me/a.py", KIND_PYTHON)]
    importing = "_find_and_load@/usr/lib/python3.11/x.py"
    names = names_of(
        (f"<module>@/home/me/a.py {importing} <module>@/home/me/a.py f@/home/me/a.py", 60),
        ("<module>@/home/me/a.py g@/home/me/a.py h@/home/me/a.py", 60),
        kinds=kinds,
    )
    assert "_find_and_load" in names


@pytest.mark.parametrize(
    ("path", "name", "own"),
    [
        ("/home/me/app", "work", True),
        ("/usr/local/bin/app", "work", True),
        ("/usr/bin/gcc", "work", False),
        ("/opt/app/lib/python3.12/site-packages/x/y.so", "work", False),
        ("/home/me/app", "std::__sort<Rec*>(Rec*,~Rec*)", False),
        ("/home/me/app", "void~std::__sort<Rec*>(Rec*)", False),
        ("/home/me/app", "<alloc::vec::Vec<T>~as~core::clone::Clone>::clone", False),
        ("/home/me/app", "<clones::Mul~as~clones::Op>::run", True),
        ("/home/me/app", "sorted(std::vector<int>)", True),
        ("/home/me/app", "Work.busy", True),
        ("/home/me/app", "com.sun.net.httpserver.HttpServer.start", False),
    ],
)
def test_whose_code_it_is(path, name, own):
    row = rows_of((f"main {name}@{path} leaf@{SYSTEM}", 100), (f"main other more@{SYSTEM}", 100))
    found = {one.name: one.is_own for one in row}
    assert found[name.replace("~", " ")] is own


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("main.handler", True),
        ("github.com/me/app.Run", True),
        ("net/http.(*conn).serve", False),
        ("runtime.mallocgc", False),
    ],
)
def test_packages_of_go_without_a_dot_are_the_standard_library_s(name, own):
    rows = rows_of(
        (f"runtime.goexit {name} memmove@{SYSTEM}", 100), ("runtime.goexit main.x main.y", 99)
    )
    assert {one.name: one.is_own for one in rows}[name] is own


@pytest.mark.parametrize(
    "name",
    [
        "_PyEval_EvalFrameDefault",
        "Builtins_JSEntryTrampoline",
        "main",
        "_start",
        "__libc_start_main@@GLIBC_2.34",
        "<module>",
        "clones::main",
        "main.main",
    ],
)
def test_starts(name):
    assert is_start(name)
    assert not is_start(f"my_{name.strip('<>')}_x")


def test_parts_of_functions():
    assert is_anonymous("titles.<locals>.<listcomp>")
    assert is_anonymous("net/http.(*Server).Serve.func3")
    assert not is_anonymous("titles")
