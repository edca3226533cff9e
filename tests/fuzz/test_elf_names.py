"""Demangling any name gives a text, in bounded time."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from builders.examples import examples
from prospect.symbols.demangling.demangle import demangle

cxx = st.text("ZNKSTEIPRFvijlcdstabCDLXMAO0123456789_.", max_size=300)
rust = st.text("NCMXYIEBDTARQPSFGKLUpshvujxe0123456789_", max_size=300)


@settings(max_examples=examples(500))
@given(
    st.one_of(
        st.binary(max_size=200),
        cxx.map(lambda name: f"_Z{name}".encode()),
        rust.map(lambda name: f"_R{name}".encode()),
        st.text("_$.LTGT0123456789uE", max_size=100).map(
            lambda name: f"_ZN{name}17h0123456789abcdefE".encode()
        ),
    )
)
def test_any_name(name):
    (text,) = demangle([name])
    assert len(text.encode("utf-8", "surrogateescape")) < 1 << 24


def test_long_names_of_one_production_cost_little():
    begin = time.process_time()
    for scheme in ("_Z", "_R", "_ZN"):
        for piece in (
            "N",
            "P",
            "F",
            "I",
            "T",
            "S_",
            "B_",
            "1a",
            "9",
            "$u20$",
            "17h0123456789abcdefE",
        ):
            demangle([(scheme + piece * (8000 // len(piece))).encode()])
            demangle([(scheme + piece * (1000 // len(piece))).encode()])
    assert time.process_time() - begin < 5
