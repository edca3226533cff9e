"""Open a store by its name: that of a daemon, or those of many hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prospect.fleet.store_places import FILE, place_of
from prospect.store.directory import StoreDirectory
from prospect.store.hosts import HostsDirectory, has_hosts
from prospect.store.tables import local_engine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prospect.store.tables import EngineMaker, Queries


def opened(name: str, hosts: Sequence[str] = ()) -> StoreDirectory:
    """Open a store to read it.

    `name` is a directory, its URL, or that of a prefix of a bucket. If any hosts of a bucket match
    the patterns `hosts`, only these are listed.

    Raises:
        StoreError: there is none, or it cannot be used.
    """
    place = place_of(name)
    if place.scheme == FILE:
        path = place.path
        return HostsDirectory(path) if has_hosts(path) else StoreDirectory(path)
    from prospect.fleet.remote import RemoteDirectory  # noqa: PLC0415 - obstore, only for S3

    return RemoteDirectory(place, hosts)


def engine_of(name: str) -> EngineMaker:
    """Return the maker of an engine by its name: "local" or spark://HOST:PORT.

    Raises:
        UsageError: there is no such engine.
    """
    if name == "local":
        return local_engine
    from prospect.fleet.spark.spark_session import address_of  # noqa: PLC0415 - only if asked for

    address_of(name)

    def spark_engine(store: StoreDirectory) -> Queries:
        from prospect.fleet.spark.spark_engine import SparkEngine  # noqa: PLC0415 - only if asked for

        return SparkEngine(store, name)

    return spark_engine
