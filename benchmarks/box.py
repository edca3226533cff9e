"""The programs that keep a machine busy while `benchmarks/daemon.py` measures: a server's box.

What is not installed is left out, and said.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

COMPILE = (
    "printf '#include <regex>\\n#include <map>\\n#include <iostream>\\n"
    'int main(){std::regex r("a+b");std::map<int,std::string> m;std::cout<<m.size();}\' > t.cc;'
    " while :; do g++ -O1 -c t.cc -o t.o; ls -l >/dev/null; done"
)
STORM = "while :; do /bin/true; /bin/true; /bin/true; (:); done"
DATABASE = """
import os, sqlite3
db = sqlite3.connect("load.db")
db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)")
while True:
    db.executemany("INSERT INTO t(b) VALUES (?)", ((os.urandom(20).hex(),) for _ in range(2000)))
    db.execute("SELECT substr(b, 1, 2) AS k, count(*) FROM t GROUP BY k ORDER BY 2").fetchall()
    db.execute("DELETE FROM t WHERE a < (SELECT max(a) - 50000 FROM t)")
    db.commit()
"""
JAVA = """
import java.util.*;
public class Orders {
    record Order(int id, String text) {}
    public static void main(String[] words) {
        for (long sum = 0; sum >= 0;) {
            Map<String, List<Order>> kept = new HashMap<>();
            for (int id = 0; id < 100_000; id++) {
                Order one = new Order(id, Integer.toHexString(id * 31));
                kept.computeIfAbsent(one.text().substring(0, 1), k -> new ArrayList<>()).add(one);
            }
            for (List<Order> orders : kept.values()) {
                orders.sort(Comparator.comparing(Order::text));
                sum += orders.size() % 7;
            }
        }
    }
}
"""
PORT = 18461
NGINX = f"""
daemon off; pid nginx.pid; error_log stderr;
events {{}}
http {{
  access_log off;
  server {{
    listen 127.0.0.1:{PORT};
    location / {{ root /usr/share/doc; autoindex on; }}
    location /app {{ proxy_pass http://127.0.0.1:{PORT + 1}; }}
  }}
}}
"""
SERVICE = f"""
import hashlib, json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Service(BaseHTTPRequestHandler):
    def do_GET(self):
        found = [hashlib.sha256(bytes([n % 251]) * 100).hexdigest() for n in range(50)]
        body = json.dumps(dict(enumerate(found))).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words): pass
ThreadingHTTPServer(("127.0.0.1", {PORT + 1}), Service).serve_forever()
"""
POSTGRES = f"""
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
export PGHOST=$PWD PGPORT={PORT + 2}
$bin/initdb -D data -A trust >/dev/null
$bin/postgres -D data -k "$PWD" -p $PGPORT -c listen_addresses= -c fsync=off &
until psql -c 'SELECT 1' postgres >/dev/null 2>&1; do sleep 0.5; done
pgbench -q -i -s 10 postgres 2>/dev/null
while :; do pgbench -c 4 -T 600 postgres; pgbench -S -c 4 -T 300 postgres; done
"""
# A program that only its own mounts have, in a control group as Docker names it; both end soon.
CONTAINERS = """
while :; do
    group=$0/docker-$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \\n').scope
    mkdir -p "$group"
    unshare --mount --pid --fork sh -c 'echo 0 > "$0/cgroup.procs"; mount -t tmpfs none /mnt
        cp "$(which sha256sum)" /mnt/work; timeout 20 /mnt/work /dev/zero' "$group"
    rmdir "$group"
done
"""


class Load(NamedTuple):
    """A program that runs all the time: what it needs installed, and how it is called."""

    needs: str
    words: tuple[str, ...]
    user: str = ""


def control_groups() -> str:
    """Return where control groups of version 2 are made, "" for nowhere."""
    for folder in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup"):
        if Path(folder, "cgroup.procs").exists():
            return f"{folder}/prospect-box"
    return ""


def box() -> list[Load]:
    """Return what runs on the box: databases, web servers, a compiler, a JVM, containers."""
    wrk = "sleep 5; while :; do wrk -t 1 -c 8 -d 60 http://127.0.0.1:{}/{}; done"
    loads = [
        Load("pgbench", ("sh", "-c", POSTGRES), "postgres"),
        Load("nginx", ("nginx", "-p", ".", "-c", "nginx.conf")),
        Load("wrk", ("sh", "-c", wrk.format(PORT, ""))),
        Load("wrk", ("sh", "-c", wrk.format(PORT, "app"))),
        Load("python3", (sys.executable, "-c", SERVICE)),
        Load("python3", (sys.executable, "-c", DATABASE)),
        Load("java", ("java", "-Xmx256m", "Orders.java")),
        Load("g++", ("sh", "-c", COMPILE)),
    ]
    groups = control_groups()
    return [*loads, Load("unshare", ("sh", "-c", CONTAINERS, groups))] if groups else loads


def small() -> list[Load]:
    """Return a compiler and a database for each two CPUs."""
    both = (Load("g++", ("sh", "-c", COMPILE)), Load("python3", (sys.executable, "-c", DATABASE)))
    return [both[number % 2] for number in range(os.cpu_count() or 1)]


def start(loads: list[Load], directory: str, first: tuple[str, ...]) -> list[subprocess.Popen]:
    """Start programs, each in a directory of its own; `first` are words before each."""
    started = []
    for number, load in enumerate(loads):
        if not shutil.which(load.needs):
            print(f"not installed, and so not running: {load.needs}")
            continue
        place = Path(directory, f"load{number}")
        place.mkdir()
        (place / "nginx.conf").write_text(NGINX)
        (place / "Orders.java").write_text(JAVA)
        as_user = ()
        if load.user:
            shutil.chown(place, load.user)
            as_user = ("setpriv", f"--reuid={load.user}", f"--regid={load.user}", "--clear-groups")
        started.append(
            subprocess.Popen(
                [*first, *as_user, *load.words],
                cwd=place,
                start_new_session=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
    return started


def end(loads: list[subprocess.Popen]) -> None:
    """End programs and all that they have started."""
    for load in loads:
        with suppress(ProcessLookupError):
            os.killpg(load.pid, signal.SIGKILL)
        load.wait()
    for group in Path(control_groups() or "/nowhere").glob("docker-*.scope"):
        with suppress(OSError):
            group.rmdir()
