"""ELF files → symbol tables: the image, its debug file, brackets for what is stripped."""
