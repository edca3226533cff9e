"""Control groups → the names of services, pods, containers and sessions.

Paths start at the root of the hierarchy, as PERF_RECORD_CGROUP and ``/proc/PID/cgroup`` have them.
Source: cgroups(7); systemd.unit(5) for names of units. Ids of containers have 64 hexadecimal digits
(Docker, containerd, CRI-O, Podman). Pods have UIDs (``pkg/kubelet/cm``, Kubernetes 1.29).
"""

from __future__ import annotations

import re

from prospect.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prospect.profile.model import ProcessTable

_UNIT = re.compile(r"[^/]+\.(?:service|scope|socket|mount|swap)")
_CONTAINER = re.compile(r"(?:^|[-/:])([0-9a-f]{64})(?:\.scope)?(?:/|$)")
# A UID of the API server or, with 32 digits, of a file of the kubelet. Systemd's slices have no
# hyphen.
_POD = re.compile(
    r"[/-]pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?:[/:]|$)"
)
_SHOWN_ID = 12


class ContainerFacts(NamedTuple):
    """A container runtime's names of a container.

    Attributes:
        pod, namespace: its pod, "" for none.
        name: "" for the container that holds a pod's namespaces.
        image: "" if unknown.
    """

    pod: str
    namespace: str
    name: str
    image: str = ""

    @property
    def shown(self) -> str:
        """The name of its service."""
        if self.pod:
            return f"pod {self.namespace}/{self.pod} {self.name}".rstrip()
        return f"container-{self.name}"


def container_id(path: str) -> str:
    """Return the id of the container of a control group, "" for none."""
    found = _CONTAINER.search(path)
    return found[1] if found else ""


def pod_id(path: str) -> str:
    """Return the UID of the pod of a control group, "" for none."""
    found = _POD.search(path)
    return found[1].replace("_", "-") if found else ""


def service_of(path: str, containers: Mapping[str, ContainerFacts] | None = None) -> str:
    """Return the service, pod or container of a control group, "" for none."""
    if identity := container_id(path):
        facts = containers.get(identity) if containers else None
        return facts.shown if facts else container_name(identity)
    units: list[str] = _UNIT.findall(path)
    return units[-1] if units else ""


def container_name(identity: str) -> str:
    """Return the name of a container without one, from its id or a pattern for ids."""
    return f"container-{identity.removeprefix('container-')[:_SHOWN_ID]}"


def container_patterns(value: str) -> tuple[str, ...]:
    """Return patterns that match the services of a container with this id or name."""
    name = value.removeprefix("container-")
    return tuple(dict.fromkeys((container_name(value), f"container-{name}", f"pod */* {name}")))


def services_of(
    paths: Iterable[str], containers: Mapping[str, ContainerFacts] | None = None
) -> list[str]:
    """Return the service of each path, else its last name, "" for the root."""
    known: dict[str, str] = {}  # thousands of processes are in a few
    return [
        known[path]
        if path in known
        else known.setdefault(
            path, service_of(path, containers) or path.rstrip("/").rpartition("/")[2]
        )
        for path in paths
    ]


def service_names(processes: ProcessTable) -> list[str]:
    """Return the service of each process, "" if no event tells it."""
    if processes.service is not None:
        return processes.service
    return services_of(processes.control_group or [""] * len(processes))
