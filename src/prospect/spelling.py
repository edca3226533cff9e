"""Find the known word that a misspelled word probably means.

There may be 100,000 known words, from untrusted sources. A bad guess is worse than none.

A mistake is an additional, missing or wrong letter, or two swapped neighbours.
Source: F. J. Damerau, "A technique for computer detection and correction of spelling errors", 1964.
"""

from __future__ import annotations

from itertools import islice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# A word of three letters may have one mistake, a long one a mistake every four letters.
_LETTERS_OF_ONE_MISTAKE, _LETTERS_A_MISTAKE = 3, 4
_MOST_MISTAKES = 3
# Longer words are not compared.
_MOST_LETTERS = 200
# Bounds the time to about half a second, even for hostile names that are all alike.
_MOST_LETTERS_COMPARED = 100_000
_MOST_KNOWN = 200_000
# Shorter words begin, or are a part of, too many words.
_LETTERS_OF_A_BEGINNING = 3
_LETTERS_OF_A_PART = 4


def nearest(given: str, known: Iterable[str], *, parts: bool = False) -> str:
    """Return the known word nearest to a given one, the first of several, "" if none is near.

    `parts`: whether the given word may also be any part of a word, as ``push_back`` of a long name.
    """
    wanted = given.casefold()
    if not 0 < len(wanted) <= _MOST_LETTERS:
        return ""
    words = [word for word in islice(known, _MOST_KNOWN) if 0 < len(word) <= _MOST_LETTERS]
    return _misspelled(wanted, words) or _shortened(wanted, words, parts=parts)


def suggestion(given: str, known: Iterable[str], *, parts: bool = False) -> str:
    """Return ``; did you mean WORD?``, "" if no known word is near."""
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
    """Return the number of mistakes between two words, at most `enough`.

    Only the cells near the diagonal of the table are filled in, which fewer mistakes can reach.
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
