"""Control groups of containers → their pods, names and images, as this machine has them on disk.

The sources, in this order, are containerd's and CRI-O's descriptions of running containers (the OCI
runtime's ``config.json``, whose annotations name the pod), Docker's and Podman's state, the links
that the kubelet makes in ``/var/log/containers``, and then `container_servers`. If all of them
fail, the pod's number in the control group's path finds its name in ``/var/log/pods``.

Only directories and files that root owns and nobody else can write count. Links are not followed,
and all answers are bounded. Paths are below the root directory of process 1, if this process may
enter it: so a daemon in its own container finds them with `hostPID`.

Source: ``pkg/cri/annotations`` (containerd 1.6), ``pkg/annotations`` (CRI-O 1.28), ``types.go`` of
the kubelet (``io.kubernetes.*`` labels), ``pkg/kubelet/cm`` (names of pods' control groups), and
``pkg/kubelet/kuberuntime/legacy.go`` and ``helpers.go`` (names of logs), Kubernetes 1.29.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from contextlib import suppress

from prospect.capture.capture_limits import (
    LARGEST_STATE_BYTES,
    MOST_KNOWN_CONTAINERS,
    MOST_LOG_NAMES,
)
from prospect.files.walk import walk
from prospect.light import Descriptor
from prospect.profile.group_names import ContainerFacts, container_id, pod_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

# A container may be a moment older than its description. This bounds how often one without a
# description is looked up.
_ASK_AGAIN_S = 15.0
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:@+-]{0,511}")
_DESCRIPTIONS = (
    "/run/containerd/io.containerd.runtime.v2.task/k8s.io/{}",
    "/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/{}",
    "/run/containers/storage/overlay-containers/{}/userdata",  # CRI-O
    "/var/lib/containers/storage/overlay-containers/{}/userdata",
)
_DOCKER, _DOCKER_SETTINGS = "/var/lib/docker", "/etc/docker/daemon.json"
_PODMAN = "/var/lib/containers/storage/overlay-containers/containers.json"
_SOCKETS = (
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/k3s/containerd/containerd.sock",
    "/run/cri-dockerd.sock",
)
_LOGS, _POD_LOGS = "/var/log/containers", "/var/log/pods"
# Annotations and labels: the pod, its namespace, the container's name, the image.
_KEYS = (
    (
        "io.kubernetes.cri.sandbox-name",
        "io.kubernetes.cri.sandbox-namespace",
        "io.kubernetes.cri.container-name",
        "io.kubernetes.cri.image-name",
    ),
    (
        "io.kubernetes.pod.name",
        "io.kubernetes.pod.namespace",
        "io.kubernetes.container.name",
        "io.kubernetes.cri-o.ImageName",
    ),
)
# The name that the kubelet and Docker's shim give the container that holds a pod's namespaces.
_SANDBOX = "POD"


class ContainerNames:
    """Finds and remembers the names of containers.

    Args:
        root: the directory that has all paths; "" for the root of process 1.
        owner: the user who must own all files.
        kubelet: URL of the kubelet's pods, "" to ask no kubelet.
    """

    def __init__(self, root: str = "", owner: int = 0, kubelet: str = "") -> None:
        self._root = root or _root_of_machine()
        self._owner = owner
        self._kubelet = kubelet
        self._known: dict[str, ContainerFacts] = {}
        self._missed: dict[str, float] = {}
        self._asked_at = -_ASK_AGAIN_S

    def of(self, paths: list[str]) -> dict[str, ContainerFacts]:
        """Return the known facts about the containers of control groups, by container id."""
        wanted = {found: path for path in paths if (found := container_id(path))}
        now = time.monotonic()
        new = {
            one for one in wanted.keys() - self._known.keys() if self._missed.get(one, 0.0) <= now
        }
        for identity in new:
            if facts := self._on_disk(identity):
                self._keep(identity, facts)
        if missing := new - self._known.keys():
            self._ask_servers(missing, now)
            for identity in missing - self._known.keys():
                if facts := self._by_pod(wanted[identity]):
                    self._keep(identity, facts)
                else:
                    _make_room(self._missed)
                    self._missed[identity] = now + _ASK_AGAIN_S
        return {one: self._known[one] for one in wanted if one in self._known}

    def _keep(self, identity: str, found: ContainerFacts) -> None:
        _make_room(self._known)
        self._known[identity] = found

    def _on_disk(self, identity: str) -> ContainerFacts | None:
        for place in _DESCRIPTIONS:
            file = self._json(f"{place.format(identity)}/config.json")
            annotations = _mapping(file, "annotations")
            for keys in _KEYS:
                if found := _facts_of(annotations, keys):
                    return found
        return self._of_docker(identity) or self._of_podman(identity) or self._of_logs(identity)

    def _of_docker(self, identity: str) -> ContainerFacts | None:
        """Read Docker's state, which large machines have on a separate disk."""
        chosen = self._json(_DOCKER_SETTINGS).get("data-root")
        is_path = isinstance(chosen, str) and chosen.startswith("/")
        for place in (_DOCKER, chosen) if is_path else (_DOCKER,):
            state = self._json(f"{place}/containers/{identity}/config.v2.json")
            if config := _mapping(state, "Config"):
                image = config.get("Image")
                name = str(state.get("Name", "")).removeprefix("/")
                of_pod = _facts_of(_mapping(config, "Labels"), _KEYS[1], image)
                return of_pod or _facts("", "", name, image)
        return None

    def _of_podman(self, identity: str) -> ContainerFacts | None:
        rows = self._parsed(_PODMAN)
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, dict) and row.get("id") == identity:
                names = row.get("names")
                return _facts("", "", names[0] if isinstance(names, list) and names else "")
        return None

    def _of_logs(self, identity: str) -> ContainerFacts | None:
        """Find ``POD_NAMESPACE_CONTAINER-ID.log``, without following the link."""
        ending = f"-{identity}.log"
        for name in self._names_in(_LOGS):
            if name.endswith(ending):
                pod, namespace, container = (*name.removesuffix(ending).split("_"), "", "")[:3]
                return _facts(pod, namespace, container)
        return None

    def _by_pod(self, path: str) -> ContainerFacts | None:
        """Find ``NAMESPACE_POD_NUMBER``, which does not name the container."""
        if not (number := pod_id(path)):
            return None
        for name in self._names_in(_POD_LOGS):
            namespace, pod, of = (*name.split("_"), "", "")[:3]
            if of == number:
                return _facts(pod, namespace, container_id(path)[:12])
        return None

    def _ask_servers(self, missing: set[str], now: float) -> None:
        """Ask the container runtime, and the kubelet if wanted, every `_ASK_AGAIN_S` at most."""
        if now - self._asked_at < _ASK_AGAIN_S:
            return
        self._asked_at = now
        sockets = [one for one in _SOCKETS if os.path.lexists(f"{self._root}{one}")]
        if not (sockets or self._kubelet):
            return  # the import is slow
        try:
            from prospect.capture.machine.container_servers import (  # noqa: PLC0415 - rarely needed
                containers_of_kubelet,
                containers_of_runtime,
            )
        except ImportError:  # targets do not have the module
            return

        found = containers_of_runtime(sockets, self._root, self._owner)
        if self._kubelet and not missing <= found.keys():
            found = {**found, **containers_of_kubelet(self._kubelet)}
        for identity in missing & found.keys():
            if facts := _facts(*found[identity]):
                self._keep(identity, facts)

    def _json(self, path: str) -> Mapping[str, Any]:
        found = self._parsed(path)
        return found if isinstance(found, dict) else {}

    def _parsed(self, path: str) -> Any:
        import json  # noqa: PLC0415 - not before COMMAND's start

        with suppress(OSError, ValueError, RecursionError):
            with os.fdopen(self._open(path, os.O_RDONLY), "rb") as file:
                data = file.read(LARGEST_STATE_BYTES + 1)
            return json.loads(data) if len(data) <= LARGEST_STATE_BYTES else None
        return None

    def _names_in(self, path: str) -> Iterator[str]:
        with suppress(OSError):
            flags = os.O_RDONLY | os.O_DIRECTORY
            with Descriptor(self._open(path, flags)) as fd, os.scandir(fd) as entries:
                for _, entry in zip(range(MOST_LOG_NAMES), entries, strict=False):
                    yield entry.name

    def _open(self, path: str, flags: int) -> int:
        """Open a file or directory that only its owner can have made."""
        owners, root = {self._owner}, self._root.encode()
        with Descriptor(walk(path.encode(), owners, root=root, follow_last=False)) as place:
            facts = os.fstat(place)
            is_plain = stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)
            if not is_plain or facts.st_uid != self._owner or facts.st_mode & _OTHERS_WRITE:
                raise OSError(errno.EPERM, os.strerror(errno.EPERM))
            return os.open(f"/proc/self/fd/{place}", flags | os.O_CLOEXEC | os.O_NONBLOCK)


def _root_of_machine() -> str:
    try:
        os.stat("/proc/1/root/")
    except OSError:
        return "/"
    return "/proc/1/root"


def _make_room(kept: dict[str, Any]) -> None:
    while len(kept) >= MOST_KNOWN_CONTAINERS:
        del kept[next(iter(kept))]


def _mapping(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _facts_of(
    words: Mapping[str, Any], keys: tuple[str, str, str, str], image: object = ""
) -> ContainerFacts | None:
    pod, namespace, container, of = (words.get(key, "") for key in keys)
    return _facts(pod, namespace, container, of or image) if pod else None


def _facts(
    pod: object, namespace: object, container: object, image: object = ""
) -> ContainerFacts | None:
    """Return the facts, or None if a runtime cannot have made these names."""
    names = ["" if one == _SANDBOX else one for one in (pod, namespace, container)]
    if not any(names):
        return None
    for name in filter(None, names):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            return None
    if bool(names[0]) != bool(names[1]):
        return None
    is_image = isinstance(image, str) and _IMAGE.fullmatch(image)
    shown_pod, shown_namespace, shown_name = map(str, names)
    return ContainerFacts(shown_pod, shown_namespace, shown_name, str(image) if is_image else "")
