"""Control groups → what people call them: services, containers, sessions.

Paths are below the root of the hierarchy, as PERF_RECORD_CGROUP and ``/proc/PID/cgroup`` have them.
Source: cgroups(7); systemd.unit(5) for names of units; containers have ids of 64 hexadecimal digits
(Docker, containerd, CRI-O, Podman).
"""

from __future__ import annotations

import functools
import re

_UNIT = re.compile(r"[^/]+\.(?:service|scope|socket|mount|swap)")
_CONTAINER = re.compile(r"(?:^|[-/:])([0-9a-f]{64})(?:\.scope)?(?:/|$)")
_SHOWN_ID = 12


def service_of(path: str) -> str:
    """Return the service or container that a control group is part of, "" for none."""
    if container := _CONTAINER.search(path):
        return container_name(container[1])
    units: list[str] = _UNIT.findall(path)
    return units[-1] if units else ""


def container_name(identity: str) -> str:
    """Return what a container is called, by its id or a pattern of that."""
    return f"container-{identity.removeprefix('container-')[:_SHOWN_ID]}"


@functools.cache  # thousands of processes are in a few
def group_name(path: str) -> str:
    """Return the same, or else the last name of the path, "" for the root."""
    return service_of(path) or path.rstrip("/").rpartition("/")[2]
