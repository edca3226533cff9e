"""What makes a process, an object or a routine the same in two recordings.

Comes in: names as recorded. Goes out: names to match by, without what differs from run to run or
from build to build: process and CPU numbers, a compiler's clones, versions of libraries.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prospect.profile.model import (
    KIND_ANON,
    KIND_JIT,
    KIND_KERNEL,
    KIND_MODULE,
    KIND_VDSO,
)
from prospect.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    _Key = Callable[["ObjectName", int], object]

# kworker/u8:3-events_unbound is one of a pool; ksoftirqd/1 is one a CPU.
_KTHREAD_NUMBER = re.compile(r"(?<=^kworker)/.*|/\d+$", re.DOTALL)
# foo.isra.0 is foo as the compiler chose to build it this time, foo.cold the part seldom run. Some
# demanglers write it as foo() [clone .isra.0].
_CLONES = frozenset(
    {"constprop", "isra", "part", "cold", "lto_priv", "llvm", "localalias", "specialized"}
)
_DEMANGLED_CLONE = " [clone "
_DELETED = " (deleted)"
_MODULE_SUFFIX = re.compile(r"\.ko(?:\.\w+)?$")
# One row each: their paths hold process ids or addresses, or name no file at all.
_WHOLE_KINDS = {
    KIND_KERNEL: "[kernel]",
    KIND_VDSO: "[vdso]",
    KIND_JIT: "[compiled at run time]",
    KIND_ANON: "[anonymous memory]",
}
RENAMED = " => "


class ObjectName(NamedTuple):
    """An object as a recording has it; `build_id` is empty where unknown."""

    kind: int
    path: str
    build_id: str


def process_name(name: str, *, is_kernel_thread: bool) -> str:
    """Return the name that a process is matched by."""
    return _KTHREAD_NUMBER.sub("", name) if is_kernel_thread else name


def routine_name(name: str) -> str:
    """Return the name that a routine is matched by; "" for hits without a name."""
    end = len(name)
    while (begin := _clone_begin(name, end)) < end:
        end = begin
    return name[:end] or name


def _clone_begin(name: str, end: int) -> int:
    """Return where what says of a clone that it is one begins, of what ends there; else `end`.

    From the end of a name, which a file may make long: a pattern would try each place in it.
    """
    if name.endswith("]", 0, end):
        begin = name.find(_DEMANGLED_CLONE, name.rfind("]", 0, end - 1) + 1, end)
        return begin if begin >= 0 else end
    at = end
    while (dot := name.rfind(".", 0, at)) >= 0:
        word = name[dot + 1 : at]
        if word in _CLONES:
            return dot
        if not word.isdecimal():
            break
        at = dot
    return end


def object_name(kind: int, path: str, build_id: str) -> ObjectName:
    """Return what an object is matched by."""
    if kind in _WHOLE_KINDS:
        return ObjectName(kind, _WHOLE_KINDS[kind], "")
    path = path.removesuffix(_DELETED)
    if kind == KIND_MODULE:
        # A path where the module's file was found, else the name in brackets.
        stem = _MODULE_SUFFIX.sub("", _base(path).strip("[]")).replace("-", "_")
        return ObjectName(kind, f"[{stem}]", "")
    return ObjectName(kind, path, build_id)


def match_objects(
    before: Iterable[ObjectName], after: Iterable[ObjectName], renamed: tuple[str, str] = ("", "")
) -> dict[ObjectName, str]:
    """Return each object's label; objects of one label are the same.

    The same build id or the same path is the same object. What then is on one side only is
    matched by base name, by `renamed`, and at last by the name of the library in front of
    ``.so``.

    Args:
        before: the objects of all recordings of one side.
        after: those of the other side.
        renamed: base names of the command's program on both sides, where they differ.
    """
    groups = _Groups()
    sides = (set(before), set(after))
    for side in sides:
        for name in side:
            groups.join(name, ("path", name.kind, name.path))
            if name.build_id:
                groups.join(name, ("build id", name.build_id))
    for key in (_base_key, _renamed_key(renamed), _library_key):
        _join_one_sided(groups, sides, key)
    return _labels(groups, sides)


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1] or path


def _base_key(name: ObjectName, _side: int) -> object:
    return ("base name", name.kind, _base(name.path))


def _renamed_key(renamed: tuple[str, str]) -> _Key:
    def key(name: ObjectName, side: int) -> object:
        return ("command",) if renamed[side] and _base(name.path) == renamed[side] else name

    return key


def _library_key(name: ObjectName, _side: int) -> object:
    stem, suffix, _ = _base(name.path).partition(".so")
    return ("library", name.kind, stem) if suffix else name


class _Groups:
    """Disjoint sets of hashable things (union-find with path halving)."""

    def __init__(self) -> None:
        self._above: dict[object, object] = {}

    def find(self, thing: object) -> object:
        above = self._above
        while above.setdefault(thing, thing) != thing:
            above[thing] = above[above[thing]]
            thing = above[thing]
        return thing

    def join(self, one: object, other: object) -> None:
        self._above[self.find(one)] = self.find(other)


def _join_one_sided(groups: _Groups, sides: tuple[set[ObjectName], ...], key: _Key) -> None:
    """Join objects of equal key where each is on one side only, and some are on either."""
    present = [{groups.find(name) for name in side} for side in sides]
    found: dict[object, list[tuple[int, ObjectName]]] = {}
    for number, side in enumerate(sides):
        for name in side:
            if groups.find(name) not in present[1 - number]:
                found.setdefault(key(name, number), []).append((number, name))
    for names in found.values():
        if len({number for number, _ in names}) > 1:
            for _, name in names[1:]:
                groups.join(name, names[0][1])


def _labels(groups: _Groups, sides: tuple[set[ObjectName], ...]) -> dict[ObjectName, str]:
    members: dict[object, tuple[set[str], set[str]]] = {}
    for number, side in enumerate(sides):
        for name in side:
            members.setdefault(groups.find(name), (set(), set()))[number].add(name.path)
    labels: dict[object, str] = {}
    taken: set[str] = set()
    for group, (before, after) in sorted(members.items(), key=lambda item: _paths(item[1])):
        label = _label(before, after)
        if label in taken:
            label = min(before | after)
        taken.add(label)
        labels[group] = label
    return {name: labels[groups.find(name)] for side in sides for name in side}


def _paths(sides: tuple[set[str], set[str]]) -> list[str]:
    return sorted(sides[0] | sides[1])


def _label(before: set[str], after: set[str]) -> str:
    if len(before | after) == 1:
        return next(iter(before | after))
    bases = [sorted({_base(path) for path in side}) for side in (before, after)]
    first, second = (names[0] if names else "" for names in bases)
    if not (first and second) or first == second:
        return first or second
    return f"{first}{RENAMED}{second}"
