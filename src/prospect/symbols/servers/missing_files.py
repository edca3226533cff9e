"""Which objects of a recording nothing on this machine names, and what servers had of them.

Files from servers are in the cache, where `image_files` finds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.profile.model import KIND_ELF
from prospect.profile.naming import NameSource
from prospect.records import Record, field
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

# Files recorded under a build id can be fetched from elsewhere.
_REASONS_TO_FETCH = {
    NameSource.NO_FILE,
    NameSource.NO_MATCH,
    NameSource.NO_PERMISSION,
    NameSource.NO_ANSWER,
}
_NO_PLACE_NOTE = "No debug-file server was asked: its files are kept in the cache, which is off."


class Fetched(Record):
    """The result.

    Attributes:
        causes: for each object that was asked for, why its file did not come; "" where it did.
        notes: sentences for the report.
    """

    causes: dict[ObjectKey, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def fetch_missing(
    objects: Iterable[HitObject],
    load: Loader,
    find_debug: DebugFinder,
    options: SymbolOptions,
    announce: Callable[[str], None] | None,
) -> Fetched:
    """Ask debug-file servers for what lacks names, or lines if these are wanted, most hit first.

    Args:
        objects: what was hit.
        load: gives an object's image and symbols, or why there are none.
        find_debug: gives its separate debug file.
        options: says whom to ask, and whether there is a cache.
        announce: called several times a second with how far it is; None to say nothing.
    """
    servers = options.servers
    if servers is None:
        return Fetched()
    by_hits = sorted(objects, key=lambda one: -one.hits)
    wanting = {}
    for one in by_hits:
        wanted = _wanted(one, load)
        if wanted is None and options.wants_lines:
            wanted = _wanted_for_lines(one, load, find_debug)
        if wanted is not None:
            wanting[one.key] = wanted
    if not wanting or not servers.urls:
        return Fetched(notes=servers.notes)
    kept = CacheDirectory.of_user() if options.use_cache else None
    if kept is None:
        return Fetched(notes=(*servers.notes, _NO_PLACE_NOTE))
    from prospect.symbols.servers.downloads import fetch_all  # noqa: PLC0415 - 60 ms, rarely needed

    answers = fetch_all(list(dict.fromkeys(wanting.values())), servers, kept, announce)
    causes = {key: answers.outcomes[wanted.build_id].value for key, wanted in wanting.items()}
    return Fetched(causes, (*servers.notes, *answers.notes))


def _wanted(one: HitObject, load: Loader) -> Wanted | None:
    """Say what an object lacks that a server may have."""
    if one.key.kind != KIND_ELF or not one.key.path.startswith(b"/"):
        return None
    loaded = load(one.key, one.pids)
    if isinstance(loaded, Missing):
        build_id = whole_build_id(one.key.build_id)
        is_fetched = bool(build_id) and loaded.reason in _REASONS_TO_FETCH
        return Wanted(build_id, needs_image=True) if is_fetched else None
    image, table = loaded
    if not image.build_id or table.is_full:
        return None
    return Wanted(image.build_id, needs_image=False)


def _wanted_for_lines(one: HitObject, load: Loader, find_debug: DebugFinder) -> Wanted | None:
    """Say whether a server may have the debug information of an object that has its symbols."""
    if one.key.kind != KIND_ELF or not one.key.path.startswith(b"/"):
        return None
    loaded = load(one.key, one.pids)
    if isinstance(loaded, Missing) or not loaded[0].build_id or has_debug_info(loaded[0]):
        return None
    if (loaded[1].source == NameSource.GO_TABLE).any():
        return None  # which has lines too
    debug = find_debug(one.key, one.pids)
    if debug is not None and has_debug_info(debug):
        return None
    return Wanted(loaded[0].build_id, needs_image=False)
