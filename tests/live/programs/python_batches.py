"""A known split of CPU time over Python functions, told at the end; asks for the time rarely.

A program that asks for its CPU time is preempted there: readings after a sample would meet it more
often at that place than it is.
"""

import json
import sys
import threading
import time

told = {}


def recursion(n=14):
    return n if n < 2 else recursion(n - 1) + recursion(n - 2)


def looping():
    return sum(i * i % 7 for i in range(6000))


def in_c():
    return json.loads(json.dumps(list(range(3000))))


def spin(function, seconds):
    begin = time.thread_time()
    function()
    each = time.thread_time() - begin
    for _ in range(int(seconds / each) + 1):
        function()
    name = function.__name__
    told[name] = told.get(name, 0) + time.thread_time() - begin


def main(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        spin(recursion, 0.05)
        spin(looping, 0.03)
        spin(in_c, 0.02)


if __name__ == "__main__":
    time.sleep(0.2)  # by its end the reader of frames is there
    thread = threading.Thread(target=main, args=(float(sys.argv[1]) / 2,))
    thread.start()
    main(float(sys.argv[1]))
    thread.join()
    print(json.dumps(told))  # noqa: T201 - what the test reads
