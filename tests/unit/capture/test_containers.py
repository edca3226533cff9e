"""What containers are called: on disk, by their runtime's socket, by the kubelet."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from prospect.capture.machine import container_servers, containers
from prospect.capture.machine.container_servers import containers_of_kubelet, is_kubelet
from prospect.capture.machine.containers import ContainerNames
from prospect.profile.group_names import ContainerFacts, service_of

SANDBOX = "accd95e9ecadf64018b72aee0c47d21e430212b2cafbb7bd8239d481c7140f9a"
CONTAINER = "b6cfd4e8394913f20e995b02a3f38a699db36fdbeedd92800461294773c147b7"
OTHER = "0f" * 32
POD = "3a4e5f60-1111-2222-3333-444455556666"
UNDERLINED = POD.replace("-", "_")
BURSTABLE = "/kubepods.slice/kubepods-burstable.slice"
IN_POD = f"/kubepods/burstable/pod{POD}/"
NAME = "web-7d9c4f8b9-x2x5k"
NGINX = ContainerFacts(NAME, "shop", "nginx", "docker.io/local/pause:1")
# What containerd 1.6.20 wrote for a container of a pod, but for what is not read.
OF_CONTAINERD = {
    "ociVersion": "1.0.2-dev",
    "annotations": {
        "io.kubernetes.cri.container-name": "nginx",
        "io.kubernetes.cri.container-type": "container",
        "io.kubernetes.cri.image-name": "docker.io/local/pause:1",
        "io.kubernetes.cri.sandbox-id": SANDBOX,
        "io.kubernetes.cri.sandbox-name": NAME,
        "io.kubernetes.cri.sandbox-namespace": "shop",
        "io.kubernetes.cri.sandbox-uid": POD,
    },
}
# All that containerd 1.6.20 sent on its socket in answer to ListContainers.
ANSWER = base64.b85decode(
    "000IA00000000F506+i$000C500000000CC00000000001pojD1^@s6000665D*Ct2L}KE4gmxJ0004qUyB`e&|("
    "cHJxonyWB>ub000000096100FuRw*v}5Vm4!DWHe<sGdVOlF*9Z|Fl9M8HDWL_VKZhkIAJz9Ib>opHfCgEWo2Y!I"
    "WjmfFf=wXGC4FiH#1`~G&f>55<p>NV`MosWjSSIVPs}DG%ztZVmC5jWo0m9G&f{2F=aF}FfuVRVlrc4W@2JDVq`c"
    "nGdW~5I5A^4F*Gn{Ibj+H3I%RwX>NET844F<Z)0m^axQ6aFKlmPVQepOVRdt5Ix#9ob7)~QH8wh9W@RvDH)CWlG-"
    "75mGGa0}Gcq(XIb>!tWH4l5IXN(9HZV0bV=^{5HDWY4Vqs=7IX5(8I5sypH!(3cG-5C?0ywpp)~1KnkoFitEeaNC"
    "Z!T+fVr6n}Wprh8E^u#TE^c9MWfBv2WnwKiWI1CrW;kLwEqF3`HETj83LI%~E^BpSWpZw1bY*icV{dMBVQFq<axQ"
    "LRZDkS#Zf9w3ctSl26=`oSYjt8}a&BdGWpgfYZ)7fYX=D;4GhsAkHD)$2Eio}MF)cDOGBPbQGcz+SG&D3cH8nLgH"
    "a0dkLL&+rX>TrTbz)_5Ze?_3b1raiWG-%DZDn(CVPj<y1aoL_Z~y=p0R;d600BUVn##zs5;WS60Wd&`n##zvB|--"
    "=e*g"
)
TASKS = "run/containerd/io.containerd.runtime.v2.task/k8s.io"


def put(root, path, value):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(value if isinstance(value, str) else json.dumps(value))
    return file


def names(root, **options):
    return ContainerNames(str(root), os.getuid(), **options)


@pytest.fixture(autouse=True)
def _usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (f"{TASKS}/{CONTAINER}/config.json", OF_CONTAINERD, NGINX),
        (
            f"run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/{CONTAINER}/config.json",
            OF_CONTAINERD,
            NGINX,
        ),
        (
            f"run/containers/storage/overlay-containers/{CONTAINER}/userdata/config.json",
            {
                "annotations": {
                    "io.kubernetes.pod.name": NAME,
                    "io.kubernetes.pod.namespace": "shop",
                    "io.kubernetes.container.name": "nginx",
                    "io.kubernetes.cri-o.ImageName": "docker.io/local/pause:1",
                }
            },
            NGINX,
        ),
        (
            f"var/lib/docker/containers/{CONTAINER}/config.v2.json",
            {"Name": "/web", "Config": {"Image": "nginx:1.25", "Labels": {}}},
            ContainerFacts("", "", "web", "nginx:1.25"),
        ),
        (
            f"var/lib/docker/containers/{CONTAINER}/config.v2.json",
            {
                "Name": f"/k8s_nginx_{NAME}_shop_{POD}_0",
                "Config": {
                    "Image": "nginx@sha256:12",
                    "Labels": {
                        "io.kubernetes.pod.name": NAME,
                        "io.kubernetes.pod.namespace": "shop",
                        "io.kubernetes.container.name": "nginx",
                    },
                },
            },
            ContainerFacts(NAME, "shop", "nginx", "nginx@sha256:12"),
        ),
        (
            "var/lib/containers/storage/overlay-containers/containers.json",
            [{"id": OTHER, "names": ["no"]}, {"id": CONTAINER, "names": ["web"]}],
            ContainerFacts("", "", "web"),
        ),
        (
            f"var/log/containers/{NAME}_shop_nginx-{CONTAINER}.log",
            "",
            ContainerFacts(NAME, "shop", "nginx"),
        ),
        (
            f"var/log/pods/shop_{NAME}_{POD}/nginx/0.log",
            "",
            ContainerFacts(NAME, "shop", CONTAINER[:12]),
        ),
    ],
)
def test_the_state_of_each_runtime_names_its_containers(tmp_path, path, value, expected):
    put(tmp_path, path, value)
    found = names(tmp_path).of([IN_POD + CONTAINER, "/system.slice/nginx.service", "/"])
    assert found == {CONTAINER: expected}


@pytest.mark.parametrize(
    "group",
    [
        f"{BURSTABLE}/kubepods-burstable-pod{UNDERLINED}.slice/cri-containerd-{CONTAINER}.scope",
        f"/kubepods.slice/kubepods-pod{UNDERLINED}.slice/crio-{CONTAINER}.scope",
        f"/kubepods.slice/kubepods-pod{UNDERLINED}.slice/docker-{CONTAINER}.scope/x",
        f"/kubepods/besteffort/pod{POD}/{CONTAINER}",
        f"/kubepods/pod{POD}/crio-{CONTAINER}",
        f"/system.slice/containerd.service/kubepods-pod{POD}.slice:cri-containerd:{CONTAINER}",
    ],
)
def test_each_form_of_a_group_leads_to_the_pod(tmp_path, group):
    put(tmp_path, f"var/log/pods/shop_{NAME}_{POD}/nginx/0.log", "")
    assert service_of(group, names(tmp_path).of([group])) == f"pod shop/{NAME} {CONTAINER[:12]}"
    put(tmp_path, f"{TASKS}/{CONTAINER}/config.json", OF_CONTAINERD)
    assert service_of(group, names(tmp_path).of([group])) == f"pod shop/{NAME} nginx"
    assert service_of(group) == f"container-{CONTAINER[:12]}"


def test_pods_of_files_and_their_own_containers(tmp_path):
    number = "c0ffee" * 5 + "aa"
    put(tmp_path, f"var/log/pods/kube-system_etcd-node1_{number}/etcd/0.log", "")
    group = f"/kubepods/burstable/pod{number}/{CONTAINER}"
    found = names(tmp_path).of([group])
    assert service_of(group, found) == f"pod kube-system/etcd-node1 {CONTAINER[:12]}"
    of_sandbox = dict(OF_CONTAINERD["annotations"])
    del of_sandbox["io.kubernetes.cri.container-name"]
    put(tmp_path, f"{TASKS}/{SANDBOX}/config.json", {"annotations": of_sandbox})
    group = IN_POD + SANDBOX
    assert service_of(group, names(tmp_path).of([group])) == f"pod shop/{NAME}"


def test_dockers_state_may_be_on_another_disk(tmp_path):
    state = {"Name": "/web", "Config": {"Image": "nginx:1.25", "Labels": {}}}
    put(tmp_path, f"data/docker/containers/{CONTAINER}/config.v2.json", state)
    for root, is_named in [("/data/docker", True), ("data/docker", False), (7, False)]:
        put(tmp_path, "etc/docker/daemon.json", {"data-root": root})
        found = names(tmp_path).of([f"/docker/{CONTAINER}"])
        assert found == (
            {CONTAINER: ContainerFacts("", "", "web", "nginx:1.25")} if is_named else {}
        )


def nothing_is_named(root):
    return names(root).of([f"/docker/{CONTAINER}"]) == {}


def test_no_link_is_followed_and_nothing_read_that_others_can_write(tmp_path):
    real = put(tmp_path, "elsewhere/config.json", OF_CONTAINERD)
    place = tmp_path / TASKS / CONTAINER
    place.mkdir(parents=True)
    (place / "config.json").symlink_to(real)
    assert nothing_is_named(tmp_path)
    (place / "config.json").unlink()
    place.rmdir()
    place.symlink_to(real.parent)
    assert nothing_is_named(tmp_path)
    place.unlink()
    file = put(tmp_path, f"{TASKS}/{CONTAINER}/config.json", OF_CONTAINERD)
    file.chmod(0o664)
    assert nothing_is_named(tmp_path)
    file.chmod(0o644)
    assert not nothing_is_named(tmp_path)
    # Another owner's.
    found = ContainerNames(str(tmp_path), os.getuid() + 1).of([f"/docker/{CONTAINER}"])
    assert found == {}
    file.unlink()
    os.mkfifo(file)
    assert nothing_is_named(tmp_path)
    # Names in a directory that others can write are anybody's.
    logs = put(tmp_path, f"var/log/containers/{NAME}_shop_nginx-{CONTAINER}.log", "").parent
    logs.chmod(0o777)
    assert nothing_is_named(tmp_path)


@pytest.mark.parametrize(
    "value",
    [
        "[" * 100_000,
        "\xff",
        "{}",
        '{"annotations": 3}',
        '{"annotations": {"io.kubernetes.pod.name": {}}}',
        '{"annotations": {"io.kubernetes.pod.name": "x"}}',
        json.dumps({"annotations": {**OF_CONTAINERD["annotations"], "a": "x" * (1 << 20)}}),
        json.dumps(OF_CONTAINERD).replace("nginx", "\\u001b[31m"),
        json.dumps(OF_CONTAINERD).replace("nginx", "a b"),
        json.dumps(OF_CONTAINERD).replace(NAME, "x" * 300),
    ],
)
def test_hostile_descriptions_name_nothing(tmp_path, value):
    put(tmp_path, f"{TASKS}/{CONTAINER}/config.json", value)
    assert nothing_is_named(tmp_path)


def test_an_image_that_cannot_be_one_is_left_out(tmp_path):
    text = json.dumps(OF_CONTAINERD).replace("docker.io/local/pause:1", "\\u001b]0;x")
    put(tmp_path, f"{TASKS}/{CONTAINER}/config.json", text)
    assert names(tmp_path).of([IN_POD + CONTAINER]) == {CONTAINER: NGINX._replace(image="")}


def test_what_is_known_stays_known_and_what_is_not_is_asked_for_again(tmp_path, monkeypatch):
    known = names(tmp_path)
    assert known.of([IN_POD + CONTAINER]) == {}
    file = put(tmp_path, f"{TASKS}/{CONTAINER}/config.json", OF_CONTAINERD)
    assert known.of([IN_POD + CONTAINER]) == {}  # not at each window
    now = time.monotonic()
    monkeypatch.setattr(containers.time, "monotonic", lambda: now + 60.0)
    assert known.of([IN_POD + CONTAINER]) == {CONTAINER: NGINX}
    file.unlink()
    assert known.of([IN_POD + CONTAINER]) == {CONTAINER: NGINX}
    monkeypatch.setattr(containers, "MOST_KNOWN_CONTAINERS", 1)
    put(tmp_path, f"{TASKS}/{OTHER}/config.json", OF_CONTAINERD)
    assert known.of([IN_POD + OTHER]) == {OTHER: NGINX}
    assert known.of([IN_POD + CONTAINER]) == {}


@contextmanager
def runtime(root, answer, wait_s=0.0):
    """Serve one connection as a container runtime does; yield what it was sent."""
    place = root / "run/containerd"
    place.mkdir(parents=True, exist_ok=True)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(place / "containerd.sock"))
    server.listen()
    said = []

    def serve():
        with suppress(OSError), server.accept()[0] as connection:
            said.append(connection.recv(1 << 16))
            time.sleep(wait_s)
            for begin in range(0, len(answer), 100):
                connection.sendall(answer[begin : begin + 100])
            while more := connection.recv(1 << 16):
                said.append(more)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield said
    server.close()
    thread.join(5)
    (place / "containerd.sock").unlink()


def test_a_runtime_that_has_nothing_on_disk_is_asked_over_its_socket(tmp_path):
    with runtime(tmp_path, ANSWER) as said:
        assert names(tmp_path).of([IN_POD + CONTAINER]) == {CONTAINER: NGINX}
    sent = b"".join(said)
    assert sent.startswith(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    assert b"/runtime.v1.RuntimeService/ListContainers" in sent
    assert b"\0\0\0\x04\x01\0\0\0\0" in sent  # settings acknowledged
    assert sent.endswith(
        b"\0\0\x08\x06\x01\0\0\0\0\x02\x04\x10\x10\x09\x0e\x07\x07"
    )  # and its ping


def frame(kind, flags, stream, body):
    return len(body).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + body


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        ANSWER[:200],
        frame(7, 0, 0, bytes(8)),
        frame(3, 0, 1, bytes(4)),
        frame(0, 1, 1, b"\0\xff\xff\xff\xff"),
        frame(0, 1, 1, b"\1\0\0\0\1x"),
        frame(0, 1, 1, b"\0\0\0\0\2\x0a\x7f"),
        frame(0, 9, 1, b"\xff\0\0\0\0\0"),
        frame(0, 0, 1, bytes(1 << 15)),
    ],
)
def test_a_runtime_that_answers_anything_names_nothing(tmp_path, answer, monkeypatch):
    monkeypatch.setattr(container_servers, "LONGEST_ANSWER_S", 0.2)
    with runtime(tmp_path, answer):
        assert names(tmp_path).of([IN_POD + CONTAINER]) == {}


def test_a_runtime_that_does_not_answer_costs_a_moment_now_and_then(tmp_path, monkeypatch):
    monkeypatch.setattr(container_servers, "LONGEST_ANSWER_S", 0.2)
    known = names(tmp_path)
    with runtime(tmp_path, ANSWER, wait_s=1.0):
        begin = time.monotonic()
        assert known.of([IN_POD + CONTAINER]) == {}
        assert known.of([IN_POD + OTHER]) == {}
        assert time.monotonic() - begin < 0.9


def test_a_socket_of_somebody_else_is_not_asked(tmp_path):
    with runtime(tmp_path, ANSWER) as said:
        assert ContainerNames(str(tmp_path), os.getuid() + 1).of([IN_POD + CONTAINER]) == {}
        assert not said
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "run/containerd/containerd.sock"))


PODS = {
    "kind": "PodList",
    "items": [
        3,
        {
            "metadata": {"name": NAME, "namespace": "shop", "uid": POD},
            "status": {
                "containerStatuses": [
                    {
                        "name": "nginx",
                        "image": "docker.io/local/pause:1",
                        "containerID": f"containerd://{CONTAINER}",
                    },
                    {"name": "starts"},
                ]
            },
        },
    ],
}


@contextmanager
def kubelet(text, status=200):
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/pods"
    server.shutdown()
    server.server_close()
    thread.join(5)


def test_a_kubelet_is_asked_where_that_is_wanted(tmp_path):
    with kubelet(json.dumps(PODS).encode()) as url:
        assert names(tmp_path).of([IN_POD + CONTAINER]) == {}
        assert names(tmp_path, kubelet=url).of([IN_POD + CONTAINER]) == {CONTAINER: NGINX}


@pytest.mark.parametrize(
    ("text", "status"),
    [(b"{", 200), (b"[]", 200), (b'{"items": {"a": 1}}', 200), (b"{}", 302), (b"x" * 9000, 500)],
)
def test_any_answer_of_a_kubelet_is_survived(text, status):
    with kubelet(text, status) as url:
        assert containers_of_kubelet(url) == {}


@pytest.mark.parametrize(
    ("url", "is_one"),
    [
        ("http://127.0.0.1:10255/pods", True),
        ("http://[::1]:10255/pods", True),
        ("https://127.0.0.1:10250/pods", False),
        ("http://10.0.0.1:10255/pods", False),
        ("http://localhost:10255/pods", False),
        ("http://127.0.0.1:x/", False),
        ("http://u@127.0.0.1/", False),
        ("file:///etc/passwd", False),
        ("", False),
    ],
)
def test_a_kubelet_is_one_of_this_machine(url, is_one):
    assert is_kubelet(url) is is_one
    if not is_one:
        assert containers_of_kubelet(url) == {}


def test_a_recorder_asks_a_runtime_without_numpy():
    words = "import sys, prospect.capture.machine.container_servers; print('numpy' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, check=True, cwd="/"
    )
    assert ran.stdout == "False\n"
