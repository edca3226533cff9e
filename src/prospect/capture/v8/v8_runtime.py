"""V8 as a runtime of the engine."""

from __future__ import annotations

from prospect.abi import runtime_frames as wire
from prospect.capture.runtimes.runtime import Runtime
from prospect.capture.v8.v8_frame_walk import (
    find_v8_frame,
    read_v8_frame,
    send_v8_function,
    sign_v8_function,
)

RUNTIME = Runtime(
    number=wire.V8,
    start=find_v8_frame,
    frame=read_v8_frame,
    sign=sign_v8_function,
    send=send_v8_function,
)
