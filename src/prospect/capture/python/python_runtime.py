"""CPython as a runtime of the engine."""

from __future__ import annotations

from prospect.abi import runtime_frames as wire
from prospect.capture.python.code_names import send_code
from prospect.capture.python.frame_walk import find_frame, read_python_frame, sign_code
from prospect.capture.runtimes.runtime import Runtime

RUNTIME = Runtime(
    number=wire.CPYTHON,
    start=find_frame,
    frame=read_python_frame,
    sign=sign_code,
    send=send_code,
)
