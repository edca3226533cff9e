"""Archives that others wrote: answers come out of any section, or an error of ours does."""

import copy
import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prospect.archived.archive_format import decode, encode, pack, unpack
from prospect.archived.kept_answers import Answers, Code, Image, Owner
from prospect.archived.symbolizers import Collector, restored_image
from prospect.errors import RecordingError
from prospect.lines.symcache import no_frames
from prospect.profile.naming import NameSource
from prospect.symbols.objects import ObjectKey
from prospect.symbols.resolution import Resolution, nameless

KEY = ObjectKey(b"/bin/a", b"\1")
ADDRESSES = np.array([1, 2], np.uint64)


def whole() -> Answers:
    collector = Collector()
    answer = Resolution(nameless(ADDRESSES, NameSource.NO_FILE), "/bin/a", 0)
    collector.add_names(Owner(KEY), ADDRESSES, answer)
    collector.add_frames(KEY, ADDRESSES, no_frames(2), "")
    lines, tree = collector.lines()
    return Answers(
        names=collector.names,
        lines=lines,
        tree=tree,
        code={(Owner(KEY), 1): Code(b"\x90", 62)},
        images={KEY: Image(64, ((0, b"\x7fELF"),))},
        source={("/a.c", 1): "x"},
        jit_dumps={1: b"d"},
    )


SECTION = encode(whole())
CONTENT = unpack(SECTION)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


def check(section: bytes) -> None:
    try:
        answers = decode(section)
    except RecordingError:
        return
    for key, image in answers.images.items():
        if isinstance(image, Image):
            restored_image(key, 0, image)
    if answers.tree is not None:
        leaves = np.arange(-1, len(answers.tree.line), dtype=np.int32)
        assert len(answers.tree.frames(leaves).start) == len(leaves) + 1


def test_the_section_itself_is_read():
    assert decode(SECTION).code == whole().code


@given(st.binary(max_size=200))
def test_any_bytes(section):
    check(section)


@given(st.data())
def test_any_byte_changed(data):
    changed = bytearray(SECTION)
    at = data.draw(st.integers(0, len(changed) - 1))
    changed[at] = data.draw(st.integers(0, 255))
    check(bytes(changed))


@given(st.data())
def test_any_fact_changed(data):
    facts = json.loads(json.dumps(CONTENT.facts))
    name = data.draw(st.sampled_from(sorted(facts)))
    place = copy.deepcopy(facts[name])
    inner = place
    while isinstance(inner, list) and inner and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(inner) - 1))
        if not isinstance(inner[at], list) or data.draw(st.booleans()):
            inner[at] = data.draw(JUNK)
            break
        inner = inner[at]
    else:
        place = data.draw(JUNK)
    check(pack(facts | {name: place}, CONTENT._columns))


@given(st.data())
def test_any_column_changed(data):
    columns = dict(CONTENT._columns)
    name = data.draw(st.sampled_from(sorted(columns)))
    limits = np.iinfo(columns[name].dtype)
    values = data.draw(st.lists(st.integers(int(limits.min), int(limits.max)), max_size=4))
    columns[name] = np.array(values, columns[name].dtype)
    check(pack(CONTENT.facts, columns))
