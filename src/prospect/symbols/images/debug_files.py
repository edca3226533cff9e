"""Paths of files that debug-file servers and targets sent to this machine, by build id.

They are in Prospect's cache and in that of elfutils' client, which GDB and perf use too
(debuginfod-client-config(7)). A target chooses what it sends, so its files have their own directory
and are used for its recordings only.
"""

from __future__ import annotations

import os
from _blake2 import blake2b  # as in `table_cache`
from typing import TYPE_CHECKING

from prospect.symbols.cache_directory import CacheDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prospect.elf.image import ElfImage

DEBUG_INFO = "debuginfo"
EXECUTABLE = "executable"
KERNEL_LISTING = "kallsyms"  # of a target's kernel, as read there
TARGETS = "targets"
ABSENT_SUFFIX = ".absent"
DOWNLOAD_SUFFIXES = (f".{DEBUG_INFO}", f".{EXECUTABLE}", f".{KERNEL_LISTING}", ABSENT_SUFFIX)

_CLIENT_DIRECTORY = "debuginfod_client"
_OLD_CLIENT_DIRECTORY = ".debuginfod_client_cache"


def has_debug_info(image: ElfImage) -> bool:
    """Return whether an image has its own DWARF."""
    return any(image.find_section(name) >= 0 for name in (b".debug_info", b".zdebug_info"))


def kept_name(build_id: bytes, kind: str) -> str:
    """Name a file of the cache: `kind` is DEBUG_INFO, EXECUTABLE or KERNEL_LISTING."""
    return f"{build_id.hex()}.{kind}"


def downloaded_paths(
    build_id: bytes, kind: str, environment: Mapping[str, str] = os.environ
) -> Iterator[bytes]:
    """Yield the paths at which a file from a debug-file server may be.

    Args:
        build_id: of the image; the caller checks that the file there has it.
        kind: DEBUG_INFO or EXECUTABLE.
        environment: variables that name the caches' places.
    """
    kept = CacheDirectory.of_user(environment)
    own = kept.use(kept_name(build_id, kind)) if kept else None
    if own:
        yield own
    client = _client_directory(environment)
    if client:
        yield os.fsencode(f"{client}/{build_id.hex()}/{kind}")


def kept_for(target: str, environment: Mapping[str, str] = os.environ) -> CacheDirectory | None:
    """Return the directory of a target's files, None if nothing is kept on disk."""
    kept = CacheDirectory.of_user(environment)
    if kept is None:
        return None
    # A digest, as the target's name may be too long for a file's or have slashes.
    digest = blake2b(target.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
    return kept.within(TARGETS).within(digest)


def target_paths(target: str, build_id: bytes, kind: str) -> Iterator[bytes]:
    """Yield the path of a file that a target sent; nothing without a target.

    Args:
        target: of the recording.
        build_id: of the image; the caller checks that an EXECUTABLE has it.
        kind: EXECUTABLE or KERNEL_LISTING.
    """
    kept = kept_for(target) if target else None
    path = kept.use(kept_name(build_id, kind)) if kept else None
    if path:
        yield path


def _client_directory(environment: Mapping[str, str]) -> str:
    """Return the cache directory of elfutils' client, "" if it has none."""
    chosen = environment.get("DEBUGINFOD_CACHE_PATH", "")
    if chosen.startswith("/"):
        return chosen
    home = environment.get("HOME", "")
    if home.startswith("/") and os.path.isdir(f"{home}/{_OLD_CLIENT_DIRECTORY}"):  # noqa: PTH112 - joined as text
        return f"{home}/{_OLD_CLIENT_DIRECTORY}"
    base = environment.get("XDG_CACHE_HOME", "")
    if base.startswith("/"):
        return f"{base}/{_CLIENT_DIRECTORY}"
    return f"{home}/.cache/{_CLIENT_DIRECTORY}" if home.startswith("/") else ""
