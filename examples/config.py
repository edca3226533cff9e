"""Price some orders. Each price reads the configuration again; `fixed` reads it once.

The function that runs is a decoder in json. The one to change is `settings`, which calls it.
"""

import json
import sys
from functools import cache

TEXT = json.dumps({f"item{n}": {"price": n, "names": ["a", "b", "c"]} for n in range(2000)})


def settings():
    return json.loads(TEXT)


def price(item, amount):
    return settings()[item]["price"] * amount


def main():
    global settings
    if "fixed" in sys.argv:
        settings = cache(settings)
    total = 0
    for n in range(700):
        total += price(f"item{n}", 3)
    print(total)


main()
