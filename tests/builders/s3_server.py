"""A small S3 server on loopback, which stores, lists and returns objects, or misbehaves as told.

Source: Amazon S3 API reference: PutObject, GetObject, HeadObject, ListObjectsV2, error responses.
"""

from __future__ import annotations

import threading
import time
from email.utils import formatdate
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "profiles"
KEY, SECRET = "AKIATESTTESTTEST", "top/secret+of+the+tests"
_XML = '<?xml version="1.0" encoding="UTF-8"?>\n'


class S3Server(ThreadingHTTPServer):
    """The server.

    Attributes:
        objects: content by key.
        puts: the key of each object that was put, as often as it was.
        page: how many keys a listing has at most.
        fault: how it misbehaves: "full", "slow", "refused", "missing" bucket, "forgets" what it was
            given, "nonsense" in place of XML, "cut" listings, "short" content, or "other" content;
            "" for not at all.
        faults_from: how many requests it answers well before.
        slow_s: how long "slow" takes.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.reset()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def reset(self):
        self.objects, self.puts, self.seen = {}, [], []
        self.page, self.fault, self.faults_from, self.slow_s = 1000, "", 0, 30.0

    @property
    def environment(self):
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "eu-central-1",
            # A proxy of this machine is for others.
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }

    def handle_error(self, request, client_address):
        """Say nothing of clients that go away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an answer is two writes
    _STATUS: ClassVar = {
        "full": (507, "InsufficientStorage"),
        "refused": (403, "AccessDenied"),
        "missing": (404, "NoSuchBucket"),
    }

    def do_PUT(self):
        content = self.rfile.read(int(self.headers["Content-Length"]))
        fault = self._fault()
        if fault in self._STATUS:
            return self._error(*self._STATUS[fault])
        if fault != "forgets":
            self.server.objects[self._key()] = content
        self.server.puts.append(self._key())
        return self._answer(200, b"", ETag=f'"{md5(content).hexdigest()}"')

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        fault = self._fault()
        if fault in ("refused", "missing"):
            return self._error(*self._STATUS[fault])
        if fault == "nonsense":
            return self._answer(200, b"<html>Please log in</html>")
        if not self._key():
            return self._list(parse_qs(urlsplit(self.path).query), fault)
        content = self.server.objects.get(self._key())
        if content is None:
            return self._error(404, "NoSuchKey")
        if fault == "other":
            content = content[::-1]
        return self._answer(200, content, is_short=fault == "short")

    def _fault(self):
        server = self.server
        server.seen.append((self.command, self._key(), self.headers.get("Authorization", "")))
        fault = server.fault if len(server.seen) > server.faults_from else ""
        if fault == "slow":
            time.sleep(server.slow_s)
        return fault

    def _key(self):
        return unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}").lstrip("/")

    def _list(self, query, fault):
        def of(name):
            return query.get(name, [""])[0]

        prefix, delimiter = of("prefix"), of("delimiter")
        behind = of("continuation-token") or of("start-after")
        entries = {}
        for key in sorted(self.server.objects):
            if key.startswith(prefix):
                head, found, _ = key[len(prefix) :].partition(delimiter or "\0")
                entries[prefix + head + delimiter if found else key] = bool(found)
        shown = [name for name in entries if name > behind]
        page = shown[: self.server.page]
        is_cut = len(shown) > len(page)
        lines = [_XML, '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">']
        lines.append(f"<Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix>")
        lines.append(f"<KeyCount>{len(page)}</KeyCount><MaxKeys>{self.server.page}</MaxKeys>")
        lines.append(f"<IsTruncated>{str(is_cut).lower()}</IsTruncated>")
        if is_cut:
            lines.append(f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>")
        for name in page:
            if entries[name]:
                lines.append(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>")
                continue
            content = self.server.objects[name]
            lines.append(
                f"<Contents><Key>{escape(name)}</Key><Size>{len(content)}</Size>"
                "<LastModified>2026-11-22T14:05:00.000Z</LastModified>"
                f"<ETag>&quot;{md5(content).hexdigest()}&quot;</ETag></Contents>"
            )
        text = "".join([*lines, "</ListBucketResult>"])
        self._answer(200, text[: len(text) // 2 if fault == "cut" else None].encode())

    def _error(self, status, code):
        text = f"{_XML}<Error><Code>{code}</Code><Message>{code}, {KEY}</Message></Error>"
        self._answer(status, text.encode())

    def _answer(self, status, content, *, is_short=False, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Last-Modified", formatdate(0, usegmt=True))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if is_short else content)
        if is_short:
            self.close_connection = True

    def log_message(self, *_):
        pass
