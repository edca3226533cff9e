"""Two threads behind Python's global lock: how long each function ran, by its thread's clock."""

import json
import sys
import threading
import time

ran = {}


def counting():
    begin = time.thread_time()
    while time.thread_time() < begin + 0.25:
        for _ in range(20_000):
            pass
    ran["counting"] = time.thread_time() - begin


def adding():
    begin, total = time.thread_time(), 0
    while time.thread_time() < begin + 0.25:
        for number in range(20_000):
            total += number
    ran["adding"] = time.thread_time() - begin


threads = [threading.Thread(target=one) for one in (counting, adding)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.stdout.write(json.dumps({"ran": ran, "blocked": {}}) + "\n")
