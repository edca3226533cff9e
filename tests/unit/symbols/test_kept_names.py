"""Names that are kept are those that would be found again."""

import tracemalloc
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prospect.profile.builder import NamedAddresses
from prospect.profile.model import KIND_ANON, KIND_ELF
from prospect.profile.naming import LazyList, NameSource
from prospect.records import replace
from prospect.symbols import kept_names
from prospect.symbols.images.image_files import read_own_vdso
from prospect.symbols.images.image_symbols import read_symbol_table
from prospect.symbols.kept_names import CachingSymbolizer, KeptNames
from prospect.symbols.naming_options import SymbolOptions
from prospect.symbols.objects import HitObject, Missing, ObjectKey
from prospect.symbols.resolution import Resolution
from prospect.symbols.symbolizer import Symbolizer

KEYS = [ObjectKey(b"/lib/a", kind=KIND_ELF), ObjectKey(b"/lib/b", kind=KIND_ELF)]
ASKED = st.lists(
    st.tuples(st.sampled_from(KEYS), st.lists(st.integers(0, 60), max_size=12, unique=True)),
    max_size=8,
)


class Counted:
    """Functions of 10 bytes; every third has no name, because nothing covers it."""

    def __init__(self):
        self.asked = []

    def resolve(self, key, pids, address):
        del pids
        self.asked += [(key, one) for one in address.tolist()]
        row = address // 10
        is_covered = row % 3 != 2
        used, rank = np.unique(row[is_covered], return_inverse=True)
        function = np.full(len(address), -1, np.int32)
        function[is_covered] = rank
        names = [f"{key.path.decode()}:{one}" for one in used.tolist()]
        named = NamedAddresses(
            address=address + np.uint64(1000),
            function=function,
            reason=np.where(is_covered, NameSource.SYMTAB, NameSource.NO_COVER).astype(np.uint8),
            name=names,
            linkage_name=names,
            aliases=[(name + "'",) for name in names],
            function_address=used * np.uint64(10),
            function_size=np.full(len(used), 10, np.uint64),
            is_global=np.ones(len(used), np.bool_),
            source=np.full(len(used), NameSource.SYMTAB, np.uint8),
            object_path=[key.path.decode()] * len(used),
        )
        return Resolution(named, key.path.decode(), key.kind)


def flat(resolution):
    named = resolution.named
    return [
        (address, reason, None)
        if row < 0
        else (address, reason, named.name[row], named.aliases[row], named.function_address[row])
        for address, row, reason in zip(
            named.address.tolist(), named.function.tolist(), named.reason.tolist(), strict=True
        )
    ]


@given(ASKED, st.sampled_from([5, 1 << 19]))
def test_answers_are_the_same_and_nothing_is_asked_for_twice(asked, most):
    counted, plain = Counted(), Counted()
    kept = KeptNames(most_addresses=most, most_symbols=1 << 20)
    with patch.object(Symbolizer, "resolve", counted.resolve):
        for key, addresses in asked:
            column = np.array(addresses, np.uint64)
            found = CachingSymbolizer(kept, SymbolOptions()).resolve(key, (), column)
            assert flat(found) == flat(plain.resolve(key, (), column))
            used = set(found.named.function.tolist()) - {-1}
            assert used == set(range(len(found.named.name)))
            kept.make_room()
            assert kept.addresses == sum(len(one.asked) for one in kept.known.values()) <= most
    if most > 60:
        assert len(counted.asked) == len(set(counted.asked))
        assert kept.addresses == len(counted.asked)


class CountedLate(Counted):
    """The same, with names that are made as they are asked for, as symbol tables give them."""

    def resolve(self, key, pids, address):
        found = super().resolve(key, pids, address)
        name, aliases = found.named.name, found.named.aliases
        late = replace(
            found.named,
            name=LazyList(len(name), lambda rows: [name[row] for row in rows]),
            aliases=LazyList(len(name), lambda rows: [aliases[row] for row in rows]),
        )
        return replace(found, named=late)


@pytest.mark.nightly
def test_names_take_memory_by_their_number_and_not_by_that_of_parts():
    kept, parts, each = KeptNames(1 << 19, 1 << 20), 1000, 2
    with patch.object(Symbolizer, "resolve", CountedLate().resolve):
        tracemalloc.start()
        for part in range(parts):
            # The first address again in the last part only.
            asked = np.arange(10 * each * part, 10 * each * (part + 1), 10, dtype=np.uint64)
            asked = np.append(asked, np.uint64(0)) if part == parts - 1 else asked
            found = CachingSymbolizer(kept, SymbolOptions()).resolve(KEYS[0], (), asked)
            _ = flat(found)
        used, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert found.named.name[0] == "/lib/a:0"
    assert used < 1000 * kept.addresses


@pytest.mark.parametrize("is_by_symbols", [False, True])
def test_images_that_never_end_are_forgotten_but_for_those_in_use(is_by_symbols):
    image = read_own_vdso()
    loaded = image, read_symbol_table(image)
    most, each, read = 5, len(loaded[1]), []
    kept = KeptNames(most_addresses=1 << 20, most_symbols=most * each if is_by_symbols else 1 << 30)

    def load(_, key, __):
        read.append(key.path)
        return loaded

    with (
        patch.object(Symbolizer, "_load_image", load),
        patch.object(kept_names, "MOST_IMAGES", 1000 if is_by_symbols else most),
    ):
        for number in range(4 * most):
            for path in (b"/usr/bin/make", b"/built/%d" % number):
                key = ObjectKey(path, kind=KIND_ELF)
                asked = np.array([number], np.uint64)
                CachingSymbolizer(kept, SymbolOptions()).resolve(key, (), asked)
            kept.make_room()
            assert len(kept.images) <= most
            assert kept.symbols == len(kept.images) * each
    assert read.count(b"/usr/bin/make") == 1
    assert len(read) == 1 + 4 * most


def test_an_image_that_no_process_could_show_is_asked_of_others():
    image = read_own_vdso()
    loaded = image, read_symbol_table(image)
    key, kept, asked = ObjectKey(b"/in/a/container", kind=KIND_ELF), KeptNames(1 << 19, 1 << 22), []
    one = np.array([image.offset_of_svma(loaded[1].start[:1])[0]], np.uint64)

    def load(_self, _key, pids):
        asked.append(tuple(pids))
        return loaded if 3 in pids else Missing(NameSource.NO_FILE, "gone")

    def reason(*pids):
        return CachingSymbolizer(kept, SymbolOptions()).resolve(key, pids, one).named.function[0]

    with patch.object(Symbolizer, "_load_image", load):
        found = [reason(*pids) for pids in ([1, 2], [2], [1, 2], [2, 3], [1], [4])]
    assert found == [-1, -1, -1, 0, 0, 0]
    assert asked == [(1, 2), (2, 3)]


def test_memory_without_a_file_is_asked_each_time():
    counted = Counted()
    key, kept = ObjectKey(b"//anon", kind=KIND_ANON), KeptNames(1 << 19, 1 << 22)
    with patch.object(Symbolizer, "resolve", counted.resolve):
        for _ in range(2):
            symbolizer = CachingSymbolizer(kept, SymbolOptions())
            symbolizer.resolve(key, (), np.array([7], np.uint64))
    assert len(counted.asked) == 2
    assert not kept.known


def test_when_it_is_late_no_further_file_is_read_and_what_was_read_keeps_its_names():
    image = read_own_vdso()
    kept, table = KeptNames(1 << 19, 1 << 22), read_symbol_table(image)
    first, further = (ObjectKey(name, kind=KIND_ELF) for name in (b"/lib/a", b"/lib/b"))
    symbolizer = CachingSymbolizer(kept, SymbolOptions())
    with patch.object(Symbolizer, "_load_image", lambda *_: (image, table)):
        symbolizer._load_image(first, (7,))
        kept.is_late = lambda: True
        found = [symbolizer._load_image(key, (7,)) for key in (first, further, further)]
        kept.is_late = lambda: False
        later = CachingSymbolizer(kept, SymbolOptions())._load_image(further, (7,))
    late = Missing(NameSource.NO_TURN, "")
    assert [one == late for one in (*found, later)] == [False, True, True, False]
    assert kept.put_off == 1


def test_of_new_files_those_with_most_hits_are_read_first_and_the_others_in_later_parts():
    kept, read = KeptNames(1 << 19, 1 << 22, most_new=1), []
    image = read_own_vdso()
    table = read_symbol_table(image)

    def load(_, key, pids):
        del pids
        read.append(key.path)
        return image, table

    names = [b"/lib/a", b"/lib/b", b"/lib/c"]
    objects = [
        HitObject(ObjectKey(name, kind=KIND_ELF), (7,), hits)
        for name, hits in zip(names, (1, 9, 5), strict=True)
    ]
    reasons = []
    for _ in range(3):
        symbolizer = CachingSymbolizer(kept, SymbolOptions())
        with patch.object(Symbolizer, "_load_image", load), patch.object(Symbolizer, "_weigh"):
            symbolizer._weigh(objects)
            found = [symbolizer._load_image(one.key, one.pids) for one in objects]
        reasons.append([one.reason if isinstance(one, Missing) else None for one in found])
    late = NameSource.NO_TURN
    assert reasons == [[late, None, late], [late, None, None], [None, None, None]]
    assert read == [b"/lib/b", b"/lib/c", b"/lib/a"]
    assert kept.put_off == 3
