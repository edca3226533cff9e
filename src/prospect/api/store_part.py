"""Read a part of a store, or choose a part of a recording, as a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.api.recorded_profile import Profile
from prospect.dimensions import known_dimension
from prospect.figures.hit_keys import kept_apart
from prospect.fleet.opening import engine_of, opened
from prospect.records import asdict
from prospect.store.part import Apart, read_part
from prospect.store.recorded import part_of_recording
from prospect.store.specification import parse_specifications

if TYPE_CHECKING:
    from collections.abc import Sequence


def read_store(
    path: str,
    specifications: Sequence[str] = (),
    *,
    stacks: bool = False,
    addresses: bool = False,
    apart: Sequence[str] = (),
    engine: str = "local",
) -> Profile:
    """Read a part of a store.

    Args:
        path: the path or URL of the store, or of the stores of many hosts.
        specifications: the part, as ``since:02:10`` or ``comm:nginx``; all of it without.
        stacks: whether call stacks are wanted.
        addresses: whether hits of a function are separate by address, if the store has addresses.
        apart: more dimensions that hits are separate by, as in ``--columns``.
        engine: "local", or spark://HOST:PORT of a Spark cluster's master.

    Raises:
        UsageError: a specification is invalid, or there is no such dimension or engine.
        StoreError: nothing matches, or the store cannot be read.
    """
    chosen = parse_specifications(specifications)
    dimensions = tuple(map(known_dimension, apart))
    make_engine = engine_of(engine)
    with opened(path, chosen.texts.get("host", ())) as store:
        part = read_part(store, chosen, Apart(stacks, addresses, dimensions), make_engine)
        return Profile(**asdict(part))


def part_of(
    profile: Profile, specifications: Sequence[str], sort: Sequence[str] = (), columns: str = ""
) -> Profile:
    """Choose a part of a recording by the words that choose a part of a store.

    Args:
        profile: the profile of the recording, with samples.
        specifications: the part, as ``since:02:10`` or ``comm:nginx``.
        sort: keys that hits are separate by, as a part has no single samples.
        columns: a dimension of ``--columns`` that they are separate by too.

    Raises:
        UsageError: a specification is invalid, or nothing matches.
    """
    whole = kept_apart(profile, sort, columns)
    part = part_of_recording(whole, parse_specifications(specifications))
    return Profile(**asdict(part))
