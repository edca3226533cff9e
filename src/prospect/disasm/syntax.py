"""What a person may choose about disassembly: the syntax of x86, and who disassembles."""

from typing import Literal

Syntax = Literal["att", "intel"]
SYNTAXES: tuple[Syntax, ...] = ("att", "intel")
Disassembler = Literal["library", "gdb"]
DISASSEMBLERS: tuple[Disassembler, ...] = ("library", "gdb")
