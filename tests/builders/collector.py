"""A server on loopback that takes profiles as a collector, Pyroscope or Parca, or misbehaves."""

from __future__ import annotations

import gzip
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import (
    ExportProfilesServiceRequest,
    ExportProfilesServiceResponse,
)


class Collector(ThreadingHTTPServer):
    """The server.

    Attributes:
        requests: what it took, decoded: messages of OTLP, dictionaries of JSON.
        headers: of each request, paths among them as ``:path``.
        answers: what the next requests get in place of 200: a status, "slow", "drip" or "reject".
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.requests, self.headers, self.answers = [], [], []
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        """Say nothing of clients that go away."""

    @property
    def samples(self):
        """How many samples of its first profile each request has."""
        return [
            sum(
                sum(sample.values)
                for sample in request.resource_profiles[0].scope_profiles[0].profiles[0].samples
            )
            for request in self.requests
        ]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        server.headers.append(
            {**{name.lower(): value for name, value in self.headers.items()}, ":path": self.path}
        )
        answer = server.answers.pop(0) if server.answers else 200
        response = ExportProfilesServiceResponse()
        if answer == "slow":
            time.sleep(1)
        if answer == "drip":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            for _ in range(100):
                self.wfile.write(b"x")
                time.sleep(0.1)
        if answer == "reject":
            response.partial_success.rejected_profiles = 3
            answer = 200
        if answer == 200 and self.headers["Content-Type"] == "application/json":
            server.requests.append(json.loads(gzip.decompress(body)))
        elif answer == 200:
            request = ExportProfilesServiceRequest()
            request.ParseFromString(gzip.decompress(body))
            server.requests.append(request)
        if isinstance(answer, int):
            self.send_response(answer)
            text = response.SerializeToString()
            if answer in (302, 307):
                self.send_header("Location", "http://127.0.0.1:1/")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    def log_message(self, *_):
        pass
