"""Bytes of an ELF image → segments, sections, symbols, build id. Opens no file."""
