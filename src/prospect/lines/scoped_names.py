"""Names of inlined C++ functions → the same names with the namespaces and classes around them.

Functions of internal linkage (in an anonymous namespace, static in a namespace) have no linkage
name, and a symcache has only their DW_AT_name. It does not show the function's entry, so a name is
qualified only if the whole image has exactly one function of that name. The search skips units that
cannot contain a name, and bodies of functions with DW_AT_sibling. It is bounded: beyond the bounds,
or if DWARF is damaged, no name is qualified. A split unit is its own, complete image
(`lines.split_lines`). Files that ``dwz -m`` made for several programs are not read.
Source: DWARF 5 standard, sections 2.3, 3.3, 3.5 and 7.5; DWARF 2 standard, section 7.5.4, in which
references to other units have the size of an address.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import numpy as np

from prospect.files.budget import CostlyError
from prospect.lines import dwarf
from prospect.lines.debug_info import is_shared
from prospect.lines.dwarf import DwarfError, leb128, section, string, unsigned
from prospect.lines.lines_limits import LONGEST_SCOPED_NAME_BYTES, MOST_PLACES, MOST_UNITS
from prospect.records import NamedTuple, Record

if TYPE_CHECKING:
    from prospect.columns.array_types import U32
    from prospect.elf.image import ElfImage

ANONYMOUS = b"(anonymous namespace)"

_DW_TAG_CLASS, _DW_TAG_STRUCTURE, _DW_TAG_UNION = 0x02, 0x13, 0x17
_DW_TAG_NAMESPACE = 0x39
_CLASSES = frozenset({_DW_TAG_CLASS, _DW_TAG_STRUCTURE, _DW_TAG_UNION})
_DW_TAG_LEXICAL_BLOCK = 0x0B
_ENTERED = frozenset({*_CLASSES, _DW_TAG_NAMESPACE, dwarf.DW_TAG_SUBPROGRAM, _DW_TAG_LEXICAL_BLOCK})
_DW_AT_SIBLING, _DW_AT_NAME = 0x01, 0x03
_DW_AT_ABSTRACT_ORIGIN = 0x31
_LINKAGE_NAMES = frozenset({0x6E, 0x2007})  # DW_AT_linkage_name, DW_AT_MIPS_linkage_name
_C_LANGUAGES = frozenset({0x01, 0x02, 0x0C, 0x1D})  # DW_LANG_C89, C, C99, C11

# GCC writes shorter names, with their zero byte, into the entry itself.
_SHORTEST_INDIRECT = 4
_CHUNK_BYTES = 1 << 22


class SearchBudget(Record, frozen=False):
    """Bytes that the search may still read in one report.

    Attributes:
        entries: of .debug_info and .debug_abbrev, and their attributes; a million take 2 to 4
            seconds.
        section_bytes: of .debug_info, and of .debug_str for each name.
    """

    entries: int = 1_000_000
    section_bytes: int = 1 << 30


class _Plan(NamedTuple):
    """How to read entries of one abbreviation.

    Attributes:
        tag: DW_TAG_*.
        has_children: whether its children follow.
        is_linked: it has a linkage name, which the symcache has too.
        is_skipped: nothing inside matters. The entry of an inlined function has the name and the
            local classes of its instances.
        steps: bytes to skip, then an attribute that matters or whose size varies, and its form.
        tail: bytes after the last step.
    """

    tag: int
    has_children: bool
    is_linked: bool
    is_skipped: bool
    steps: tuple[tuple[int, int, int], ...]
    tail: int


class ScopedNames:
    """Finds qualified names in one image, and remembers them.

    Args:
        image: the one with the DWARF.
        budget: shared by the images of a report.
        are_indexed: whether to read names with an index: in a split unit. In others only clang
            writes them, whose functions all have linkage names.
    """

    def __init__(self, image: ElfImage, budget: SearchBudget, *, are_indexed: bool = False) -> None:
        self._image = image
        self._are_indexed = are_indexed
        self._budget = budget
        self._known: dict[bytes, bytes] = {}

    def qualified(self, names: set[bytes]) -> dict[bytes, bytes]:
        """Return the qualified names of those with exactly one."""
        new = names - self._known.keys()
        if new:
            self._known.update((name, name) for name in new)
            self._known.update(self._search(new))
        return {name: self._known[name] for name in names if self._known[name] != name}

    def _search(self, names: set[bytes]) -> dict[bytes, bytes]:
        if is_shared(self._image):
            return {}
        try:
            search = _Search(self._image, names, self._budget, are_indexed=self._are_indexed)
            return search.unique()
        except (DwarfError, CostlyError):
            return {}


class _Search:
    """One search of an image's units for names."""

    def __init__(
        self, image: ElfImage, names: set[bytes], budget: SearchBudget, *, are_indexed: bool
    ) -> None:
        self._info = section(image, b".debug_info")
        self._strings = section(image, b".debug_str")
        self._abbreviations = section(image, b".debug_abbrev")
        offsets = section(image, b".debug_str_offsets")
        self._string_offsets = offsets if are_indexed else offsets[:0]
        self._string_base = 0
        self._budget = budget
        self._short = [re.escape(name + b"\0") for name in names if len(name) < _SHORTEST_INDIRECT]
        size = len(self._info) * (1 + len(self._short)) + len(self._strings) * len(names)
        if size > budget.section_bytes:
            raise DwarfError("too much debug information")
        budget.section_bytes -= size
        self._tables: dict[int, dict[int, dwarf.Abbreviation]] = {}
        self._plans: dict[tuple[int, int, int], dict[int, _Plan]] = {}
        self._found: dict[bytes, set[bytes | None]] = {name: set() for name in names}
        self._name_at = self._places(names)
        self._is_place = np.zeros(len(self._strings) + 1, np.bool_)
        self._is_place[list(self._name_at)] = True
        self._is_indexed = self._refers(self._string_offsets)

    def _places(self, names: set[bytes]) -> dict[int, bytes]:
        """Find names in .debug_str, even at the end of another."""
        places: dict[int, bytes] = {}
        for name in names:
            for found in re.finditer(re.escape(name + b"\0"), self._strings):
                places[found.start()] = name
                if len(places) > MOST_PLACES:
                    raise DwarfError("a name at too many places")
        return places

    def unique(self) -> dict[bytes, bytes]:
        """Return the qualified name of names with exactly one."""
        for unit in itertools.islice(dwarf.units(self._info), MOST_UNITS):
            if self._may_hold(unit) and (plans := self._plans_of(unit)):
                self._walk(unit, plans)
            if all(len(found) > 1 for found in self._found.values()):
                break
        only = {name: next(iter(found)) for name, found in self._found.items() if len(found) == 1}
        return {name: scoped for name, scoped in only.items() if scoped is not None}

    def _may_hold(self, unit: dwarf.Unit) -> bool:
        """Return whether a unit's bytes contain a short name, or the place of a longer one."""
        content = self._info[unit.dies : unit.end]
        if self._is_indexed or any(re.search(name, content) for name in self._short):
            return True
        starts = itertools.product(range(0, len(content), _CHUNK_BYTES), range(4))
        return any(
            self._refers(content[start + shift : start + shift + _CHUNK_BYTES])
            for start, shift in starts
        )

    def _refers(self, content: memoryview) -> bool:
        numbers: U32 = np.frombuffer(content[: len(content) // 4 * 4], "<u4")
        known = np.minimum(numbers, np.uint32(len(self._strings)))
        return bool(self._is_place.take(known).any())

    def _spend(self, entries: int) -> None:
        self._budget.entries -= entries
        if self._budget.entries < 0:
            raise DwarfError("too many entries")

    def _plans_of(self, unit: dwarf.Unit) -> dict[int, _Plan]:
        """Return how to read a unit's entries; none for C, whose names are complete."""
        start = unit.abbreviations
        if start not in self._tables:
            left = max(self._budget.entries, 0)
            table, _ = dwarf.abbreviations(self._abbreviations, start, 0, left)
            self._spend(sum(1 + len(one.attributes) for one in table.values()))
            self._tables[start] = table
        table = self._tables[start]
        _, values, _ = dwarf.first_entry(self._info, unit, table)
        form, position = values.get(dwarf.DW_AT_LANGUAGE, (0, 0))
        size = dwarf.FIXED_FORMS.get(form, 0)
        if 0 < size <= 2 and unsigned(self._info, position, size) in _C_LANGUAGES:
            return {}
        form, position = values.get(dwarf.DW_AT_STR_OFFSETS_BASE, (0, 0))
        self._string_base = dwarf.number(self._info, position, form)
        sizes = unit.address_bytes, unit.address_bytes if unit.version == 2 else 4
        key = start, *sizes
        if key not in self._plans:
            self._plans[key] = {code: _plan(one, *sizes) for code, one in table.items()}
        return self._plans[key]

    def _walk(self, unit: dwarf.Unit, plans: dict[int, _Plan]) -> None:
        """Add the qualified names of a unit's functions with a searched name."""
        position, end = unit.dies, unit.end
        # The qualifiers of the names at each depth; None if there is no plain name.
        scopes: list[bytes | None] = []
        while position < end:
            code, position = leb128(self._info, position)
            if not code:
                self._spend(1)
                del scopes[-1:]
                if not scopes:
                    return
                continue
            plan = plans.get(code)
            if plan is None:
                raise DwarfError("an entry without an abbreviation")
            name, sibling, position = self._entry(unit, plan, position)
            if not scopes:
                scopes.append(b"")  # the unit's own entry
                continue
            if plan.tag == dwarf.DW_TAG_SUBPROGRAM and not plan.is_linked:
                found = self._found.get(name)
                if found is not None and len(found) < 2:
                    found.add(_joined(scopes[-1], name))
            if plan.has_children and sibling and plan.is_skipped:
                position = sibling
            elif plan.has_children:
                scopes.append(_scope_inside(plan.tag, name, scopes[-1]))
        raise DwarfError("entries without an end")

    def _entry(self, unit: dwarf.Unit, plan: _Plan, position: int) -> tuple[bytes, int, int]:
        """Read an entry: its name if it matters, its sibling or 0, and the next position."""
        self._spend(1 + len(plan.steps))
        name, sibling = b"", 0
        for skip, attribute, form in plan.steps:
            position += skip
            after = dwarf.after_form(self._info, position, form, unit.address_bytes)
            if after > unit.end:
                raise DwarfError("an entry that is cut off")
            if attribute == _DW_AT_NAME:
                name = self._name(form, position)
            elif attribute == _DW_AT_SIBLING:
                sibling = unit.offset + dwarf.number(self._info, position, form)
            position = after
        position += plan.tail
        if sibling and not position <= sibling <= unit.end:
            raise DwarfError("a sibling that is elsewhere")
        return name, sibling, position

    def _name(self, form: int, position: int) -> bytes:
        if form == dwarf.DW_FORM_STRING:
            return string(self._info, position)
        try:
            place = dwarf.number(self._info, position, form)
            if form != dwarf.DW_FORM_STRP:
                if not self._is_indexed:
                    return b""
                place = unsigned(self._string_offsets, self._string_base + 4 * place, 4)
            return self._name_at.get(place) or string(self._strings, place)
        except DwarfError:  # such as too long names of templates
            return b""


def _plan(entry: dwarf.Abbreviation, address_bytes: int, reference_bytes: int) -> _Plan:
    """Return how to read an entry; a reference to another unit has `reference_bytes`."""
    sizes = dwarf.FIXED_FORMS | {
        dwarf.DW_FORM_ADDR: address_bytes,
        dwarf.DW_FORM_REF_ADDR: reference_bytes,
    }
    steps = []
    skip = 0
    is_entered = entry.tag in _ENTERED
    for attribute, form in entry.attributes:
        matters = attribute == _DW_AT_SIBLING or (attribute == _DW_AT_NAME and is_entered)
        size = sizes.get(form)
        if matters or size is None:
            steps.append((skip, attribute if matters else 0, form))
            skip = 0
        else:
            skip += size
    names = {attribute for attribute, _ in entry.attributes}
    return _Plan(
        entry.tag,
        entry.has_children,
        not names.isdisjoint(_LINKAGE_NAMES),
        _DW_AT_ABSTRACT_ORIGIN in names or not is_entered,
        tuple(steps),
        skip,
    )


def _scope_inside(tag: int, name: bytes, scope: bytes | None) -> bytes | None:
    """Return the qualifier of names inside an entry; None in functions and unnamed classes."""
    if tag == _DW_TAG_NAMESPACE:
        return _joined(scope, name or ANONYMOUS)
    return _joined(scope, name) if tag in _CLASSES and name else None


def _joined(scope: bytes | None, name: bytes) -> bytes | None:
    if scope is None or len(scope) + len(name) > LONGEST_SCOPED_NAME_BYTES:
        return None
    return scope + b"::" + name if scope else name
