import resource
import time

import pytest

from prospect.symbols.demangling import cxx_names
from prospect.symbols.demangling.cxx_names import available
from prospect.symbols.demangling.demangle import demangle

needs_runtime = pytest.mark.skipif(not available(), reason="needs libstdc++")


def one(name):
    return demangle([name])[0]


@needs_runtime
@pytest.mark.parametrize(
    ("mangled", "text"),
    [
        (b"_ZN5Shape5sidesEv", "Shape::sides()"),
        (
            b"_ZNSt6vectorIiSaIiEE9push_backERKi",
            "std::vector<int, std::allocator<int> >::push_back(int const&)",
        ),
        (b"_Z3fooi.constprop.0", "foo(int) [clone .constprop.0]"),
        (b"_Z3fooi@plt", "foo(int)@plt"),
        (b"_Z3fooi->_Z3barv", "foo(int)->bar()"),
        (b"->_Z3barv", "->bar()"),
        (b"main->_Z3barv", "main->bar()"),
    ],
)
def test_names_of_cxx(mangled, text):
    assert one(mangled) == text


@pytest.mark.parametrize(
    ("mangled", "text"),
    [
        (
            b"_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE",
            "core::fmt::Formatter::write_str",
        ),
        (
            b"_ZN60_$LT$alloc..string..String$u20$as$u20$core..fmt..Display$GT$3fmt17h0123456789abcdefE.llvm.99",
            "<alloc::string::String as core::fmt::Display>::fmt",
        ),
        (b"_ZN1a1b17h0123456789abcdefE.cold", "a::b.cold"),
        (b"_RNvCs1234_7mycrate3foo", "mycrate::foo"),
        (b"_RNvCs1234_7mycrate3foo.llvm.8A", "mycrate::foo"),
        (b"_RNvCs1234_7mycrate3foo@plt", "mycrate::foo@plt"),
    ],
)
def test_names_of_rust(mangled, text):
    assert one(mangled) == text


@pytest.mark.parametrize(
    "name",
    [
        b"",
        b"main",
        b"_start",
        b"_Z",
        b"_R",
        b"_ZN",
        b"_D3std5stdio",
        b"runtime.mallocgc",
        b"$s4main3fooyyF",
        b"_Znonsense",
        b"_RNvonsense",
        b"->",
        b"a->b",
        b"_Z\xff\xfe",
        b"_Z" + b"P" * 100_000 + b"i",
        b"_R" + b"N" * 100_000,
    ],
)
def test_what_is_not_mangled_stays(name):
    assert one(name).encode("utf-8", "surrogateescape") == name


def test_each_distinct_name_is_demangled_once(monkeypatch):
    calls = []
    monkeypatch.setattr(cxx_names, "demangle_cxx", lambda name: calls.append(name) or b"text")
    assert demangle([b"_Z1fv", b"_Z1gv", b"_Z1fv"]) == ["text"] * 3
    assert sorted(calls) == [b"_Z1fv", b"_Z1gv"]


def test_without_the_runtime_names_of_cxx_stay_and_those_of_rust_do_not(monkeypatch):
    monkeypatch.setattr(cxx_names, "_LIBRARY", "libnothing-of-that-name.so")
    cxx_names._load_demangler.cache_clear()
    try:
        assert not available()
        assert one(b"_Z3foov") == "_Z3foov"
        assert one(b"_RNvCs1234_7mycrate3foo") == "mycrate::foo"
    finally:
        cxx_names._load_demangler.cache_clear()


def doubling_cxx(levels):
    """Parameters that are pairs of two of the pair before."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:levels]
    return b"_Z1f1PIiiE" + "".join(f"S_IS{d}_S{d}_E" for d in digits).encode()


def doubling_rust(levels):
    """Generic arguments that are tuples of two of the tuple before."""
    text, previous = "IC1aTuuE", 4
    for _ in range(levels):
        reference = f"B{base_62(previous - 1)}_"
        previous = len(text)
        text += f"T{reference}{reference}E"
    return f"_R{text}E".encode()


def base_62(value):
    high = base_62(value // 62) if value >= 62 else ""
    return high + "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[value % 62]


def nested_packs(size):
    """A pack in a pack in a pack, each as long as the first."""
    return b"_Z1fIJ" + b"i" * size + b"EEvDp1gIT_1hIDp1kIT_1lIDpT_EEEE"


GREEDY = [doubling_cxx(30), doubling_rust(30), nested_packs(400)]


@needs_runtime
@pytest.mark.parametrize("name", [doubling_cxx(2), doubling_rust(2), nested_packs(2)])
def test_references_back_are_followed(name):
    assert demangle([name]) != [name.decode()]


@needs_runtime
def test_names_that_ask_for_gigabytes_stay_alone_and_cost_little_time_and_no_memory():
    costly = [
        b"_Z%d" % len(text) + text + b"1xS_S_S_S_S_S_S_S_S_S_S_S_S_S_S_S_S_S_S_"
        for text in (b"f", b"g", b"h")
    ]
    names = [GREEDY[0], costly[0], GREEDY[2], costly[1], costly[2], GREEDY[1]]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.monotonic()
    texts = demangle(names)
    assert time.monotonic() - begin < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
    kept = {place: names[place].decode() for place in (0, 2, 5)}
    assert {place: texts[place] for place in kept} == kept
    assert [texts[place][:4] for place in (1, 3, 4)] == ["f(x,", "g(x,", "h(x,"]


@needs_runtime
def test_what_was_added_to_a_name_is_no_part_of_it():
    names = {
        b"_Z3foov->_Z3barv [fn 2 of 3]": "foo()->bar() [fn 2 of 3]",
        b"_Z3foov-> [fn 2 of 3]": "foo()-> [fn 2 of 3]",
        b"->_Z3barv [fn 2 of 3]": "->bar() [fn 2 of 3]",
        b"_Z3foov@plt": "foo()@plt",
        b"[fn at 0x1234]": "[fn at 0x1234]",
    }
    assert demangle(list(names)) == list(names.values())


@needs_runtime
def test_without_a_child_only_costly_names_stay(monkeypatch):
    monkeypatch.setattr(cxx_names.sys, "executable", "/nonexistent")
    assert demangle([GREEDY[0], b"_Z3foov"]) == [GREEDY[0].decode(), "foo()"]
