import time

import pytest

from prospect.symbols import demangle as module
from prospect.symbols.demangle import available, demangle

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
    monkeypatch.setattr(module, "_demangle_one", lambda name: calls.append(name) or "text")
    assert demangle([b"_Z1fv", b"_Z1gv", b"_Z1fv"]) == ["text"] * 3
    assert sorted(calls) == [b"_Z1fv", b"_Z1gv"]


def test_without_the_runtime_names_of_cxx_stay_and_those_of_rust_do_not(monkeypatch):
    monkeypatch.setattr(module, "_LIBRARY", "libnothing-of-that-name.so")
    module._load_demangler.cache_clear()
    try:
        assert not available()
        assert one(b"_Z3foov") == "_Z3foov"
        assert one(b"_RNvCs1234_7mycrate3foo") == "mycrate::foo"
    finally:
        module._load_demangler.cache_clear()


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


@needs_runtime
@pytest.mark.parametrize("build", [doubling_cxx, doubling_rust])
def test_names_that_ask_for_gigabytes_stay_and_cost_nothing(build):
    small, big = build(2), build(30)
    assert one(small) != small.decode()
    begin = time.process_time()
    assert one(big) == big.decode()
    assert time.process_time() - begin < 1
