"""Find the known word that was probably meant by one that is unknown.

There may be 100,000 known words, from untrusted sources. A guess that is far off is worse than
none.

Source: F. J. Damerau, "A technique for computer detection and correction of spelling errors", 1964,
for what counts as one mistake: a letter too much, missing, wrong, or swapped with its neighbour.
"""

from __future__ import annotations

from itertools import islice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# One mistake, in long words one letter in four, and no more than could be overlooked.
_LETTERS_OF_ONE_MISTAKE, _LETTERS_A_MISTAKE = 3, 4
_MOST_MISTAKES = 3
# Longer ones are neither typed nor compared.
_MOST_LETTERS = 200
# Bounds the time, to about half a second, where somebody chose names that are all alike.
_MOST_LETTERS_COMPARED = 100_000
_MOST_KNOWN = 200_000
# Words that a shorter word begins, or is a part of, say little.
_LETTERS_OF_A_BEGINNING = 3
_LETTERS_OF_A_PART = 4


def nearest(given: str, known: Iterable[str], *, parts: bool = False) -> str:
    """Return the known word that was probably meant, "" if none is like what was given.

    Args:
        given: what was typed.
        known: words that would have been understood; of words that are equally near, the first.
        parts: whether `given` may also be any part of a word, as ``push_back`` of a long name.
    """
    wanted = given.casefold()
    if not 0 < len(wanted) <= _MOST_LETTERS:
        return ""
    words = [word for word in islice(known, _MOST_KNOWN) if 0 < len(word) <= _MOST_LETTERS]
    return _misspelled(wanted, words) or _shortened(wanted, words, parts=parts)


def suggestion(given: str, known: Iterable[str], *, parts: bool = False) -> str:
    """Return ``; did you mean WORD?``, "" if no known word is like what was given."""
    near = nearest(given, known, parts=parts)
    return f"; did you mean {near}?" if near else ""


def _misspelled(wanted: str, words: list[str]) -> str:
    allowed = max(len(wanted) // _LETTERS_A_MISTAKE, len(wanted) >= _LETTERS_OF_ONE_MISTAKE)
    least = min(allowed, _MOST_MISTAKES) + 1
    letters = set(wanted)
    found, compared = "", 0
    for word in words:
        name = word.casefold()
        # A mistake changes the length by one at most, and the letters that occur by two.
        if abs(len(name) - len(wanted)) >= least or len(letters ^ set(name)) > 2 * (least - 1):
            continue
        mistakes = _mistakes(wanted, name, least)
        if mistakes < least:
            found, least = word, mistakes
        compared += len(name)
        if not least or compared > _MOST_LETTERS_COMPARED:
            break
    return found


def _shortened(wanted: str, words: list[str], *, parts: bool) -> str:
    if len(wanted) >= _LETTERS_OF_A_BEGINNING:
        for word in words:
            if word.casefold().startswith(wanted):
                return word
    if parts and len(wanted) >= _LETTERS_OF_A_PART:
        for word in words:
            if wanted in word.casefold():
                return word
    return ""


def _mistakes(given: str, name: str, enough: int) -> int:
    """Return how many mistakes lead from one to the other, or `enough` where it is no fewer.

    Only cells of the table that fewer mistakes can reach are filled in: those near its diagonal.
    """
    if given == name:
        return 0
    above: list[int] = []
    row = list(range(len(name) + 1))
    for i, letter in enumerate(given, 1):
        two_above, above = above, row
        row = [enough] * (len(name) + 1)
        row[0] = i
        for j in range(max(1, i - enough + 1), min(len(name), i + enough - 1) + 1):
            row[j] = min(
                above[j] + 1, row[j - 1] + 1, above[j - 1] + (letter != name[j - 1]), enough
            )
            if i > 1 < j and letter == name[j - 2] and name[j - 1] == given[i - 2]:
                row[j] = min(row[j], two_above[j - 2] + 1)
        if min(row) >= enough:
            break
    return min(row[-1], enough)
