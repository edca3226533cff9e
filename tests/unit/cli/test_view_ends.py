"""Signals that end `prospect view`, at any moment of its wait."""

import os
import signal
import sys
import threading

from prospect.cli.view import _serving


class Server:
    """Serves nothing until it is shut down."""

    def __init__(self):
        self.is_over = threading.Event()

    def serve_forever(self):
        self.is_over.wait()

    def shutdown(self):
        self.is_over.set()


def test_a_signal_that_comes_as_the_wait_begins_ends_it():
    # A lock that `threading` takes for a wait is held when its first line runs.
    def kill(frame, event, _):
        if event == "call" and frame.f_code.co_name == "wait":
            sys.settrace(None)
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with _serving(Server()) as ending:
        late = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        late.start()
        sys.settrace(kill)
        try:
            assert ending.get() == signal.SIGINT
        finally:
            sys.settrace(None)
            late.join()
    assert signal.getsignal(signal.SIGINT) == before
