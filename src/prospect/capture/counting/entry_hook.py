"""A plug-in's hook at entries and returns of counted functions: its eBPF programs and maps.

A plug-in of the group ``prospect.hooks`` makes them with its `HookKit`, and returns lines with
their results. The kernel's verifier checks the programs: they can read anything, but cannot change
the process.

Defined by: docs/plugins.md. Source: bpf_uprobe_multi_link_attach() in
``kernel/trace/bpf_trace.c``, Linux 6.18; struct pt_regs in ``arch/x86/include/asm/ptrace.h``.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from prospect.abi import bpf as abi
from prospect.capture.capture_limits import MOST_HOOK_ENTRIES, MOST_HOOK_LINES
from prospect.capture.kernel import bpf_objects
from prospect.capture.kernel.bpf_assembler import (
    EXIT,
    Instruction,
    Label,
    Reg,
    assemble,
    atomic_add,
    call,
    jump_if,
    load,
    look_up,
    move,
    store,
)
from prospect.errors import PluginError
from prospect.plugins import HOOKS, called, described, plugin

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.metadata import EntryPoint
    from typing import Any

    Code = Sequence[Instruction | Label]

# struct pt_regs: di, si, dx, cx, r8, r9; ax
_ARGUMENTS = (112, 104, 96, 88, 72, 64)
_RESULT = 80
_INDEX = -4


class Counters:
    """An array of u64 counters in the kernel, one array for each CPU."""

    def __init__(self, map_fd: int, entries: int) -> None:
        self.map_fd = map_fd
        self._entries = entries

    def read(self) -> list[int]:
        """Return each counter's sum over the CPUs.

        Raises:
            OSError: the kernel refused.
        """
        return [bpf_objects.read_percpu_sum(self.map_fd, index) for index in range(self._entries)]


class HookKit:
    """The means to make a hook.

    Attributes:
        functions: names of the counted functions, in the order of the numbers of `number`.
    """

    def __init__(self, functions: Sequence[str]) -> None:
        self.functions = tuple(functions)
        self.programs: list[tuple[int, int]] = []
        self.fds: list[int] = []
        self._labels = 0

    def counters(self, entries: int) -> Counters:
        """Make an array of counters.

        Raises:
            ValueError: there may not be so many.
            OSError: the kernel refused.
        """
        if not 0 < entries <= MOST_HOOK_ENTRIES:
            raise ValueError(f"1 to {MOST_HOOK_ENTRIES} counters, not {entries}")
        layout = bpf_objects.MapLayout(
            "prospect_hook", abi.BPF_MAP_TYPE_PERCPU_ARRAY, 4, 8, entries
        )
        self.fds.append(bpf_objects.create_map(layout))
        return Counters(self.fds[-1], entries)

    def argument(self, number: int, register: Reg) -> Code:
        """Set a register to an argument of the function, numbered from 0, at its entry."""
        return (load(abi.BPF_DW, register, Reg.R1, _ARGUMENTS[number]),)

    def result(self, register: Reg) -> Code:
        """Set a register to the result of the function, at its return."""
        return (load(abi.BPF_DW, register, Reg.R1, _RESULT),)

    def number(self, register: Reg) -> Code:
        """Set a register to the number of the function; changes R1 to R5."""
        return (call(abi.BPF_FUNC_get_attach_cookie), move(register, Reg.R0))

    def count(self, counters: Counters, index: Reg) -> Code:
        """Add one to the counter whose number is in a register; changes R0 to R5."""
        self._labels += 1
        end = f"counted {self._labels}"
        return (
            store(abi.BPF_W, Reg.FP, _INDEX, index),
            *look_up(counters.map_fd, _INDEX),
            jump_if(abi.BPF_JEQ, Reg.R0, 0, end),
            move(Reg.R1, 1),
            atomic_add(Reg.R0, 0, Reg.R1),
            Label(end),
        )

    def at_entry(self, *parts: Code) -> None:
        """Run code at the entry of a function; R1 points to its registers.

        Raises:
            OSError: the kernel's verifier refuses it.
        """
        self._add(parts, 0)

    def at_return(self, *parts: Code) -> None:
        """Run code at the return of a function, as `at_entry` does."""
        self._add(parts, abi.BPF_F_UPROBE_MULTI_RETURN)

    def _add(self, parts: Sequence[Code], flags: int) -> None:
        code = assemble([*(one for part in parts for one in part), move(Reg.R0, 0), EXIT])
        self.fds.append(bpf_objects.load_uprobes_program("prospect_hook", code))
        self.programs.append((self.fds[-1], flags))


class EntryHook:
    """A hook: call `attach` each time that probes are placed, `lines` at the end, then `close`."""

    def __init__(self, entry_point: EntryPoint, functions: Sequence[str], pid: int) -> None:
        """Let the plug-in make its programs.

        Raises:
            PluginError: it failed, or the kernel refused a program.
        """
        self.name = entry_point.name
        self._entry_point = entry_point
        self._pid = pid
        self._kit = HookKit(functions)
        try:
            self._report: Any = called(entry_point, self._kit)
        except PluginError:
            self.close()
            raise
        if not callable(self._report) or not self._kit.programs:
            self.close()
            raise PluginError(
                f"{described(entry_point)} failed: it gives no program, or returns no function"
            )

    def attach(self, path: bytes, offsets: Sequence[int], numbers: Sequence[int]) -> list[int]:
        """Run the programs at places of a file until the returned descriptors are closed.

        Raises:
            OSError: the kernel refused.
        """
        links: list[int] = []
        try:
            for program, flags in self._kit.programs:
                places = path, offsets, numbers
                link = bpf_objects.attach_uprobes(program, *places, flags=flags, pid=self._pid)
                links.append(link)
        except OSError:
            for link in links:
                os.close(link)
            raise
        return links

    def lines(self) -> list[str]:
        """Return the hook's result.

        Raises:
            PluginError: it failed.
        """
        try:
            return [str(line) for line in self._report()][:MOST_HOOK_LINES]
        except Exception as error:  # anything may go wrong in a plug-in
            what = f"{type(error).__name__}: {error}"
            raise PluginError(f"{described(self._entry_point)} failed: {what}") from error

    def close(self) -> None:
        """Close the programs and maps; the kernel then removes them."""
        while self._kit.fds:
            with suppress(OSError):
                os.close(self._kit.fds.pop())


def entry_hook(name: str, functions: Sequence[str], pid: int) -> EntryHook:
    """Return the hook with a name, ready to be attached; arguments as of `EntryHook`.

    Raises:
        PluginError: it failed.
        UsageError: there is none, or several.
    """
    found = plugin(HOOKS, name)
    if found is None:
        from prospect.errors import UsageError  # noqa: PLC0415 - on the way to an error
        from prospect.plugins import names  # noqa: PLC0415 - on the way to an error

        known = ", ".join(names(HOOKS))
        there = f"there are {known}" if known else "no package adds any; see docs/plugins.md"
        raise UsageError(f"--count-hook: there is no entry hook '{name}': {there}")
    return EntryHook(found, functions, pid)
