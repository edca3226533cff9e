"""Which runtime is said to lack an option: only one that ran much code without names."""

import pytest
from tests.builders.profile import ProfileBuilder

from prospect.assembly.placing.runtime_hints import runtime_hints
from prospect.profile.model import KIND_ANON, KIND_ELF, KIND_JIT
from prospect.profile.naming import NameSource


def profile_of(image, *, code=("", NameSource.NO_ANONYMOUS, KIND_ANON), hits=100, **process):
    """A process with hits in an image, and as many in memory without a file."""
    builder = ProfileBuilder()
    row = builder.process("app", 7, **({"is_command": True} | process))
    inside = builder.function("eval", builder.object(image, KIND_ELF), 0x1000)
    name, source, kind = code
    made = builder.function(name, builder.object("//anon", kind), 0x2000, source=source)
    builder.hit(row, inside, hits)
    builder.hit(row, made, hits)
    return builder.build()


@pytest.mark.parametrize(
    ("image", "option"),
    [
        ("/usr/bin/node", "--perf-basic-prof"),
        ("/usr/lib/libnode.so.108", "--perf-basic-prof"),
        ("/usr/bin/python3.11", "-X perf"),
        ("/usr/lib/libpython3.13.so.1.0", "-X perf"),
        ("/usr/lib/jvm/lib/server/libjvm.so", "DumpPerfMapAtExit"),
    ],
)
def test_the_option_that_is_missing(image, option):
    (hint,) = runtime_hints(profile_of(image), ())
    assert option in hint
    assert " 100 hits" in hint


@pytest.mark.parametrize("image", ["/usr/bin/nodejs2", "/usr/bin/python-config", "/usr/bin/ls"])
def test_other_images_are_no_runtimes(image):
    assert runtime_hints(profile_of(image), ()) == ()


def test_who_named_its_code_is_not_told():
    named = ("py::f", NameSource.MAP_FILE, KIND_JIT)
    assert runtime_hints(profile_of("/usr/bin/python3.13", code=named), ()) == ()
    assert runtime_hints(profile_of("/usr/bin/python3.13"), {7}) == ()


def test_few_hits_are_not_worth_a_sentence():
    assert runtime_hints(profile_of("/usr/bin/node", hits=20), ()) == ()


def test_the_recorder_is_not_meant():
    recorder = profile_of("/usr/bin/python3.13", is_recorder=True, is_command=False)
    assert runtime_hints(recorder, ()) == ()


def test_a_recording_without_a_command_tells_of_all():
    assert len(runtime_hints(profile_of("/usr/bin/node", is_command=False), ())) == 1
