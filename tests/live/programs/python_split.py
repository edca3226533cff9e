"""A known split of processor time over Python functions, told at the end; see known shares there.

Generators, recursion, a callback from C, exceptions, coroutines, a thread.
"""

import time

time.sleep(0.3)  # by its end the reader of frames is there: importing has frames too

import asyncio  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402

told = {}


def recursion(n=14):
    return n if n < 2 else recursion(n - 1) + recursion(n - 2)


class Callback:
    def key(self, x):
        return (x * 7919) % 1009


def sorting():
    return sorted(range(4000), key=Callback().key)


def generator(n):
    for i in range(n):
        yield inner(i)


def inner(i):
    return i * i % 7


def generating():
    return sum(generator(6000))


def fail(n):
    if n == 0:
        raise ValueError
    fail(n - 1)


def raising():
    for _ in range(100):
        try:  # noqa: SIM105 - what is measured is this
            fail(10)
        except ValueError:
            pass


async def awaited(n):
    return n if n == 0 else await awaited(n - 1) + 1


def awaiting():
    async def several():
        for _ in range(100):
            await awaited(20)

    asyncio.new_event_loop().run_until_complete(several())


def in_c():
    return json.loads(json.dumps(list(range(3000))))


def spin(function, seconds):
    begin = time.thread_time()
    while time.thread_time() < begin + seconds:
        function()
    name = function.__name__
    told[name] = told.get(name, 0) + time.thread_time() - begin


def main(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        spin(recursion, 0.04)
        spin(in_c, 0.03)
        spin(sorting, 0.02)
        spin(generating, 0.03)
        spin(raising, 0.02)
        spin(awaiting, 0.02)


def worker(seconds):
    main(seconds)


if __name__ == "__main__":
    thread = threading.Thread(target=worker, args=(float(sys.argv[1]) / 2,))
    thread.start()
    main(float(sys.argv[1]))
    thread.join()
    print(json.dumps(told))  # noqa: T201 - what the test reads
