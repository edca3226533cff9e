"""The ELF format as data: constants under their gABI names, and its structures as numpy dtypes.

Source: ``include/uapi/linux/elf.h`` and ``/usr/include/elf.h`` (glibc 2.36); System V gABI,
chapters "Object Files" and "Program Loading"; the psABI of each machine for its relocations.
Both classes use the same field names, so that other code needs no second version for 32 bits.
"""

from __future__ import annotations

import numpy as np

ELFMAG = b"\x7fELF"
ELFCLASS32, ELFCLASS64 = 1, 2
ELFDATA2LSB, ELFDATA2MSB = 1, 2

ET_EXEC, ET_DYN, ET_CORE = 2, 3, 4

EM_386 = 3
EM_ARM = 40
EM_X86_64 = 62
EM_AARCH64 = 183
EM_RISCV = 243

PT_LOAD, PT_DYNAMIC, PT_NOTE = 1, 2, 4
PT_GNU_EH_FRAME = 0x6474E550
PT_GNU_SFRAME = 0x6474E554
PF_X, PF_W = 1, 2
PN_XNUM = 0xFFFF

SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_DYNAMIC, SHT_NOTE, SHT_NOBITS = 2, 3, 4, 6, 7, 8
SHT_DYNSYM = 11
SHT_SYMTAB_SHNDX = 18
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_COMPRESSED = 0x1, 0x2, 0x4, 0x800
SHN_UNDEF, SHN_LORESERVE, SHN_ABS, SHN_COMMON, SHN_XINDEX = 0, 0xFF00, 0xFFF1, 0xFFF2, 0xFFFF

STB_LOCAL, STB_GLOBAL, STB_WEAK = 0, 1, 2
STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_SECTION, STT_GNU_IFUNC = 0, 1, 2, 3, 10
STV_INTERNAL, STV_HIDDEN = 1, 2

NT_GNU_BUILD_ID = 3

DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_STRSZ = 4, 5, 6, 7, 8, 10
DT_GNU_HASH = 0x6FFFFEF5

R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT, R_X86_64_IRELATIVE = 6, 7, 37
R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT, R_AARCH64_IRELATIVE = 1025, 1026, 1032
R_X86_64_RELATIVE, R_AARCH64_RELATIVE = 8, 1027

EHDR_32 = np.dtype(
    [
        *(("ident", "V16"), ("type", "<u2"), ("machine", "<u2")),
        *((name, "<u4") for name in ("version", "entry", "phoff", "shoff", "flags")),
        *((name, "<u2") for name in ("ehsize", "phentsize", "phnum", "shentsize", "shnum")),
        ("shstrndx", "<u2"),
    ]
)
EHDR_64 = np.dtype(
    [
        (name, "<u8" if name in {"entry", "phoff", "shoff"} else EHDR_32[name])
        for name in EHDR_32.names or ()
    ]
)

_PHDR_32 = ("type", "offset", "vaddr", "paddr", "filesz", "memsz", "flags", "align")
_PHDR_64 = ("type", "flags", "offset", "vaddr", "paddr", "filesz", "memsz", "align")
PHDR_32 = np.dtype([(name, "<u4") for name in _PHDR_32])
PHDR_64 = np.dtype([(name, "<u4" if name in {"type", "flags"} else "<u8") for name in _PHDR_64])

_SHDR = ("name", "type", "flags", "addr", "offset", "size", "link", "info", "addralign", "entsize")
SHDR_32 = np.dtype([(name, "<u4") for name in _SHDR])
SHDR_64 = np.dtype(
    [(name, "<u4" if name in {"name", "type", "link", "info"} else "<u8") for name in _SHDR]
)

_SYM_INFO = (("info", "u1"), ("other", "u1"), ("shndx", "<u2"))
SYM_32 = np.dtype([("name", "<u4"), ("value", "<u4"), ("size", "<u4"), *_SYM_INFO])
SYM_64 = np.dtype([("name", "<u4"), *_SYM_INFO, ("value", "<u8"), ("size", "<u8")])

DYN_32 = np.dtype([("tag", "<u4"), ("value", "<u4")])
DYN_64 = np.dtype([("tag", "<u8"), ("value", "<u8")])

RELA_64 = np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])
