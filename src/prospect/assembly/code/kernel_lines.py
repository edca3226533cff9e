"""The recorded kernel → an image of it with DWARF, and how far from its place it stood."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

from prospect.disasm.kernel_code import KernelImage, open_kernel
from prospect.records import replace
from prospect.symbols.images.debug_files import has_debug_info
from prospect.symbols.images.image_files import (
    debug_files,
    downloaded_debug_files,
    same_build_id,
)

if TYPE_CHECKING:
    from prospect.symbols.cache import SymbolCache
    from prospect.symbols.options import SymbolOptions

NO_IMAGE = (
    "source lines of the kernel need its vmlinux with debug information: give it with -L, or "
    "install the kernel's debug symbols"
)


def kernel_with_lines(options: SymbolOptions, cache: SymbolCache | None) -> KernelImage | str:
    """Find the vmlinux that -L gives, else one with DWARF by the recorded kernel's build id.

    Returns:
        The image, or the reason why there is none.
    """
    if options.kernel_image:
        kernel = open_kernel(options, cache)
        return kernel if isinstance(kernel, KernelImage) else str(kernel)
    build_id = options.kernel_build_id
    if not build_id:
        return NO_IMAGE
    for found in itertools.chain(debug_files(build_id), downloaded_debug_files(build_id)):
        if same_build_id(build_id, found.image.build_id) and has_debug_info(found.image):
            path = os.fsdecode(found.file.path)
            kernel = open_kernel(replace(options, kernel_image=path, system_map=None), cache)
            if isinstance(kernel, KernelImage):
                return replace(kernel, found=found)  # with the rights of where it came from
    return NO_IMAGE
