"""Values of the options of stores, the daemon and many hosts: text as it was typed → what it means.

As `cli.values`, from which it is apart because no recording asks for any of it.
"""

from __future__ import annotations

from prospect.cli.values import one_of, seconds, some_of
from prospect.errors import UsageError

# The last one is OProfile's word for what a store does anyway.
SEPARATIONS = ("process", "thread", "cpu", "library")
# As opreport calls what profiles were kept apart by.
MERGED = ("cpu", "tid", "tgid", "lib", "all")


def daemon_call_graph(text: str) -> str:
    """Read how a daemon finds callers."""
    return one_of(text, ("fp", "auto", "none"), "fp, auto or none")


def window(text: str) -> float:
    """Read the length of a window."""
    found = seconds(text)
    if not 1.0 <= found <= 3600.0:
        raise UsageError("give seconds, from 1 to 3600")
    return found


def separations(text: str) -> tuple[str, ...]:
    """Read what a store keeps apart."""
    return some_of(text, SEPARATIONS)


def merged(text: str) -> tuple[str, ...]:
    """Read what a report is to add up."""
    if "unitmask" in text.split(","):
        raise UsageError(
            "hits of events with different unit masks count different things and do not add up; "
            "choose one by unit-mask:, or see them side by side by --columns event"
        )
    return some_of(text, MERGED)


def host_share(text: str) -> float:
    """Read a share of hosts."""
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 1e-6 <= share <= 1.0:
        raise UsageError("give a share over 0 and up to 1, as 0.01")
    return share


def keep(text: str) -> str:
    """Read how much a store keeps."""
    from prospect.store.retention import parse_keep

    parse_keep(text)
    return text


def engine(text: str) -> str:
    """Read the name of an engine: local, or the address of a Spark cluster's master."""
    if text != "local" and not text.startswith("spark://"):
        raise UsageError("give local, or spark://HOST:PORT of a cluster's master")
    return text


def host_or_build(text: str) -> str:
    """Check what outliers are looked for among."""
    return one_of(text, ("host", "build"), "host or build")
