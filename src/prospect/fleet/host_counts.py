"""Estimate the number of distinct hosts of several sums with a sketch that any engine can add up.

HyperLogLog: a host's hash selects a register, and has a rank; a register keeps the largest rank.
Engines have no sketch in common, but all have `bit_or`: a register is the set of the ranks that it
met, and its highest bit counts. Four registers are a number of 60 bits. `bit_or` also merges the
sketches of several days.
Source: Flajolet, Fusy, Gandouet and Meunier, HyperLogLog: the analysis of a near-optimal
cardinality estimation algorithm, DMTCS Proceedings AH (2007), figure 3, with linear counting for
few hosts; the bits are those of Flajolet and Martin, J. Comput. Syst. Sci. 31 (1985).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from prospect.columns.array_types import F64, I64

_WORDS, _REGISTERS_A_WORD, _BITS = 8, 4, 15
_REGISTERS = _WORDS * _REGISTERS_A_WORD
_ALPHA = 0.697  # the paper's, of 32 registers
STANDARD_ERROR = 1.04 / _REGISTERS**0.5
SKETCH = tuple(f"hosts_{word}" for word in range(_WORDS))


def bits_of_hosts(hosts: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return the place of each host's number in a sketch, `word`, and the `bits` that it sets."""
    words, bits = [], []
    for host in hosts:
        digest = blake2b(host.encode("utf-8", "surrogateescape"), digest_size=8).digest()
        rest, register = divmod(int.from_bytes(digest, "little"), _REGISTERS)
        rank = min((rest & -rest).bit_length() - 1 if rest else _BITS - 1, _BITS - 1)
        word, place = divmod(register, _REGISTERS_A_WORD)
        words.append(word)
        bits.append(1 << (place * _BITS + rank))
    return {"word": np.array(words, np.int32), "bits": np.array(bits, np.int64)}


def sketch_columns() -> str:
    """Return the columns of a query that make a sketch of `word` and `bits` in a table `b`."""
    return ", ".join(
        f"bit_or(CASE WHEN b.word = {word} THEN b.bits ELSE 0 END)::BIGINT AS {name}"
        for word, name in enumerate(SKETCH)
    )


def merged_columns() -> str:
    """Return the columns of a query that add sketches up."""
    return ", ".join(f"bit_or({name})::BIGINT AS {name}" for name in SKETCH)


def estimated(sketches: I64) -> F64:
    """Return f64[r]: the estimated number of hosts of each sketch i64[r, word]."""
    mask = (1 << _BITS) - 1
    registers = np.concatenate(
        [(sketches >> (place * _BITS)) & mask for place in range(_REGISTERS_A_WORD)], axis=1
    )
    # One more than the rank of the highest bit; 0 for no bit.
    ranks = np.frexp(registers.astype(np.float64))[1]
    raw = _ALPHA * _REGISTERS**2 / np.sum(np.exp2(-ranks), axis=1)
    empty = np.count_nonzero(ranks == 0, axis=1)
    counted = _REGISTERS * np.log(_REGISTERS / np.maximum(empty, 1))
    found: F64 = np.where((raw <= 2.5 * _REGISTERS) & (empty > 0), counted, raw)
    return found
