"""The methods of all classes that a JVM has loaded, so that interpreted frames can be named.

New classes and class loaders are at the beginning of their lists, so a walk ends where the last one
began, and a program's own classes come before those of the library.

Defined by: ``src/hotspot/share/classfile/classLoaderData.hpp`` and ``oops/instanceKlass.hpp``
(OpenJDK 8 to 25): ClassLoaderDataGraph::_head, ClassLoaderData::_klasses, Klass::_next_link,
InstanceKlass::_methods. Version 8 exports neither list. Klass::_next_link is between two fields
that it exports, and ClassLoaderData::_klasses is the pointer to a class whose loader is this one.
"""

from __future__ import annotations

import struct
from collections import deque
from contextlib import suppress

from prospect.capture.java.vm_tables import UnknownError
from prospect.capture.runtimes.process_memory import UnreadableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from prospect.capture.java.vm_tables import VmTables
    from prospect.capture.runtimes.process_memory import ProcessMemory

_WORD, _HALF = struct.Struct("<Q"), struct.Struct("<i")
# A large server has some 1,000 loaders, 30,000 classes and 300,000 methods.
_MOST_LOADERS, _MOST_CLASSES, MOST_METHODS = 1 << 13, 1 << 16, 1 << 17
_MOST_METHODS_OF_A_CLASS = 1 << 13
# Classes that one look reads: the rest comes with the next one.
_CLASSES_A_LOOK = 256


class ClassLayout:
    """Where classes are; raises UnknownError as `VmTables` does."""

    def __init__(self, tables: VmTables) -> None:
        self.head = tables.static("ClassLoaderDataGraph::_head")
        self.next_loader = tables.offset("ClassLoaderData::_next")
        classes, next_class = "ClassLoaderData::_klasses", "Klass::_next_link"
        self.classes = self.loader = -1
        if tables.has(classes):
            self.classes = tables.offset(classes)
            self.next_class = tables.offset(next_class)
        else:
            self.loader_bytes = tables.size("ClassLoaderData")
            self.loader = tables.offset("InstanceKlass::_class_loader_data")
            self.next_class = self.loader - _WORD.size
            if tables.offset("Klass::_next_sibling") != self.next_class - _WORD.size:
                raise UnknownError(next_class)
        self.kind = tables.offset("Klass::_layout_helper")
        self.methods = tables.offset("InstanceKlass::_methods")
        # Array<Method*>: how many there are, then these.
        self.first_method = tables.offset("Array<Method*>::_data")
        self.class_bytes = max(self.next_class, self.methods, self.kind) + 8


class ClassReader:
    """Gives the Methods of classes, each class once.

    Attributes:
        left_out: whether there are more classes or methods than are read.
    """

    def __init__(self, memory: ProcessMemory, layout: ClassLayout) -> None:
        self._memory = memory
        self._layout = layout
        # By loader the class that its list began with, up to which it was walked.
        self._first: dict[int, int] = {}
        # Where a loader has its classes, if its tables do not say so and it is not found yet.
        self._list_at = layout.classes
        self._waiting: deque[int] = deque()
        self._classes = self._methods = 0
        self.left_out = False

    def look(self) -> list[int]:
        """Return Methods of classes that are new, some classes at a time."""
        with suppress(UnreadableError):  # classes are being unloaded
            self._find()
        found: list[int] = []
        for _ in range(min(_CLASSES_A_LOOK, len(self._waiting))):
            try:
                found.extend(self._methods_of(self._waiting.popleft()))
            except UnreadableError:
                continue
        if self._methods + len(found) > MOST_METHODS:
            self.left_out = True
            found = found[: MOST_METHODS - self._methods]
        self._methods += len(found)
        return found

    @property
    def has_more(self) -> bool:
        """Whether there are classes that wait for the next look."""
        return bool(self._waiting)

    def _find(self) -> None:
        """Find classes that are new."""
        layout = self._layout
        if self._classes >= _MOST_CLASSES:
            return
        loaders: set[int] = set()
        at = self._memory.number(layout.head)
        while at and at not in loaders and len(loaders) < _MOST_LOADERS:
            loaders.add(at)
            if self._list_at < 0:
                self._list_at = self._place_of_list(at)
            first = self._memory.number(at + self._list_at) if self._list_at >= 0 else 0
            if first != self._first.get(at, 0):
                self._waiting.extend(self._classes_from(first, self._first.get(at, 0)))
                self._first[at] = first
            at = self._memory.number(at + layout.next_loader)
        self._first = {one: first for one, first in self._first.items() if one in loaders}

    def _place_of_list(self, loader: int) -> int:
        """Return at which offset a loader has the first of its classes, -1 if that is not found."""
        content = self._memory.read(loader, self._layout.loader_bytes)
        for offset in range(0, len(content) - _WORD.size + 1, _WORD.size):
            (one,) = _WORD.unpack_from(content, offset)
            with suppress(UnreadableError):
                if one and self._memory.number(one + self._layout.loader) == loader:
                    return offset
        return -1

    def _classes_from(self, first: int, last: int) -> Iterator[int]:
        at = first
        while at and at != last:
            if self._classes >= _MOST_CLASSES:
                self.left_out = True
                return
            self._classes += 1
            yield at
            at = self._memory.number(at + self._layout.next_class)

    def _methods_of(self, one: int) -> list[int]:
        layout = self._layout
        content = self._memory.read(one, layout.class_bytes)
        # Classes of arrays have negative numbers, and no methods.
        if _HALF.unpack_from(content, layout.kind)[0] <= 0:
            return []
        (listed,) = _WORD.unpack_from(content, layout.methods)
        (count,) = _HALF.unpack(self._memory.read(listed, 4)) if listed else (0,)
        if not 0 < count <= _MOST_METHODS_OF_A_CLASS:
            return []
        data = self._memory.read(listed + layout.first_method, _WORD.size * count)
        return [method for (method,) in _WORD.iter_unpack(data)]
