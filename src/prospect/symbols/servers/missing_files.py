"""The objects of a recording whose files this machine lacks → their files from debug-file servers.

Files from servers are in the cache, where `image_files` finds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.profile.model import KIND_ELF
from prospect.profile.naming import NameSource
from prospect.symbols.cache_directory import CacheDirectory
from prospect.symbols.images.debug_files import has_debug_info
from prospect.symbols.images.image_files import whole_build_id
from prospect.symbols.objects import Missing, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prospect.elf.image import ElfImage
    from prospect.symbols.naming_options import SymbolOptions
    from prospect.symbols.objects import HitObject, ObjectKey
    from prospect.symbols.table import SymbolTable

    DebugFinder = Callable[[ObjectKey, Sequence[int]], ElfImage | None]
    Loader = Callable[[ObjectKey, Sequence[int]], tuple[ElfImage, SymbolTable] | Missing]

_REASONS_TO_FETCH = {
    NameSource.NO_FILE,
    NameSource.NO_MATCH,
    NameSource.NO_PERMISSION,
    NameSource.NO_ANSWER,
}
_NO_PLACE_NOTE = "No debug-file server was asked: its files are kept in the cache, which is off."


def fetch_missing(
    objects: Iterable[HitObject],
    load: Loader,
    find_debug: DebugFinder,
    options: SymbolOptions,
    announce: Callable[[str], None] | None,
) -> tuple[dict[ObjectKey, str], tuple[str, ...]]:
    """Request files of objects that lack names, or lines if these are wanted, most hits first.

    Args:
        load: returns an object's image and symbols, or why there are none.
        find_debug: returns its separate debug file.
        announce: called several times a second with the progress; None to say nothing.

    Returns:
        For each object whose file was requested, why it did not arrive, "" if it did; and
        sentences for the report.
    """
    servers = options.servers
    if servers is None:
        return {}, ()
    wanting = {}
    for one in sorted(objects, key=lambda one: -one.hits):
        wanted = _wanted(one, load, find_debug if options.wants_lines else None)
        if wanted is not None:
            wanting[one.key] = wanted
    if not wanting or not servers.urls:
        return {}, servers.notes
    kept = CacheDirectory.of_user() if options.use_cache else None
    if kept is None:
        return {}, (*servers.notes, _NO_PLACE_NOTE)
    from prospect.symbols.servers.downloads import fetch_all  # noqa: PLC0415 - 60 ms, rarely needed

    outcomes, notes = fetch_all(list(dict.fromkeys(wanting.values())), servers, kept, announce)
    causes = {key: outcomes[wanted.build_id].value for key, wanted in wanting.items()}
    return causes, (*servers.notes, *notes)


def _wanted(one: HitObject, load: Loader, find_debug: DebugFinder | None) -> Wanted | None:
    """Return the file that an object lacks and a server may have.

    `find_debug` is None if lines are not wanted.
    """
    if one.key.kind != KIND_ELF or not one.key.path.startswith(b"/"):
        return None
    loaded = load(one.key, one.pids)
    if isinstance(loaded, Missing):
        build_id = whole_build_id(one.key.build_id)
        is_fetched = bool(build_id) and loaded.reason in _REASONS_TO_FETCH
        return Wanted(build_id, needs_image=True) if is_fetched else None
    image, table = loaded
    if not image.build_id:
        return None
    if table.is_full:
        # Go's table has lines too.
        if not find_debug or has_debug_info(image) or NameSource.GO_TABLE in table.source:
            return None
        debug = find_debug(one.key, one.pids)
        if debug is not None and has_debug_info(debug):
            return None
    return Wanted(image.build_id, needs_image=False)
