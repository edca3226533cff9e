"""Debug-file servers on loopback that behave, and some that do not."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def serving(files, answer=None):
    """Serve {(hexadecimal build id, kind): bytes}; yield its prefix and the paths asked for.

    `answer`, if given, gets the handler and may answer in its own way; True says that it did.
    """
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.close_connection = True
            if answer and answer(self):
                return
            _, _, build_id, kind = (*self.path.rsplit("/", 3), "", "")[:4]
            content = files.get((build_id, kind))
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_):
            pass  # the client went away

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def silent_server():
    """Accept connections and never say a word; yield its prefix."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def dead_server():
    """Return a prefix that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


def whole_answer(handler, content, *headers, status=200, length=None):
    """Answer with these bytes, and a Content-Length that may not be theirs."""
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(content) if length is None else length))
    for name, value in headers:
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(content)
    return True


def endless_answer(handler):
    """Answer with zeros until the client goes away."""
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(bytes(1 << 16))
    except OSError:
        return True


def redirect(handler, location):
    """Send the client elsewhere."""
    return whole_answer(handler, b"", ("Location", location), status=302)
