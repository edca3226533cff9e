"""What users read has no turns of phrase that a native reader stumbles over.

Each pattern has what to write instead. Read are the pages, news fragments, messages and help (each
string of the source that is not a docstring), and the docstrings of the Python interface.
"""

import ast
import inspect
import re
from pathlib import Path

import pytest

import prospect

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *(ROOT / name / "README.md" for name in ("benchmarks", "examples", "packaging")),
    *sorted((ROOT / ".github").rglob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "changes.d").glob("*.md")),
]
SENTENCE = r"(?:^|(?<=[.!?:] ))"
# A pattern, and what to write instead. None of them is in a good sentence.
TICKS = {
    # A clause as the subject: the reader has to hold it until the verb.
    SENTENCE + r"(?:What|Whatever|Whom|Whose|Who) [^.?:!]{3,}\.(?= |$)": "name the thing",
    r"\b[Ww]hoever\b": "if you, a user who",
    # What a sentence is about comes first, then of what it is a part.
    SENTENCE + r"Of (?!course|`|\d|a hundred)[^.,?:]{1,80}, ": "Y of X",
    r"\b(?:stands?|stood)\b(?! (?:for|out|still|alone)\b)(?!-)": "is, appears, is in",
    r"\b(?:lies|lay) (?:in|on|at|below|above|between|behind|within|right|elsewhere|there)\b": "is",
    r"\b[Bb]eside\b": "next to, besides, compared with, at the same time as",
    # "Where" is for places. A reader looks for one.
    SENTENCE + r"Where [^?.]*, ": "if, when",
    r"\bwhere (?:there (?:is|are)|nothing|none|no |nobody|possible|allowed)": "if",
    r"\bwhere that (?:is not|cannot|could)": "if",
    r"(?:\bnull`?|\bempty|\babsent) where\b": "if",
    r"\b(?:is|are|be|was|were) (?:said|told)\b(?! apart)": "reports, knows",
    r"\bsays truly\b": "is correct",
    r"\bin place of\b": "instead of",
    r"\b[Ss]eldom\b": "rarely",
    r"\bof (?:its|their|his|her|our) own(?=[,.;:)]|$| (?:in|by|that|which|and|is|as)\b)": "its own",
    r"\bof (?:ours|others)\b(?!')": "our X, other users' X",
    r"\bone behind the other\b|\bright behind\b": "concatenated, right after",
    r"\b(?:[Aa]|one|two|each|another|\d+) processors?\b": "a CPU, CPUs",
    r"\bprocessors' |\bprocessor seconds": "CPU seconds",
    # Each clause is a sentence; items after a colon may be divided so.
    r"(?:^|(?<=[.!?] ))[^.?!:;|]*;[^.?!:;|]*;[^.?!|]*\.(?= |$)": "three sentences",
    r"\banew\b|\bonce more\b": "again",
    r"\ball the same\b": "anyway",
    r"\b[Ll]ikewise\b": "the same, and repeat what",
    r"\b(?:on|off) line\b": "online, offline",
    r"\b(?:divided|separated) by blanks\b": "separated by spaces",
    r"\btakes? (?:\w+ )?room\b": "uses space",
    r"\bthe least of (?:\w+ )?(?:runs|pairs|times)\b": "the smallest of",
    r"\bto and fro\b": "back and forth",
    r"\bby turns\b": "in turn",
    r"(?:\bthe|\bits|'s) begin\b": "the start",
    r"\bsome (?:KB|MB|GB|bytes|hundred|thousand)\b": "a few KB, about 100 bytes",
    r"\bnothing fits\b": "nothing matches",
    r"\bdoes without\b": "gives up, needs no",
    r"\bafresh\b": "again",
    r"\bcannot be had\b": "needs",
    r"\bthe order of time\b": "chronological order",
    r"\bnot (?:named|read|counted|known|shown) by (?:them|it)selves\b": "name the agent",
    r"\b(?:the|all) (?:counted|joined|taken|told|asked) (?:is|are)\b": "a verb and its object",
}

# Words of the report of 2002, which `--classic` writes and the pages do not.
OLD_WORDS = {
    r"\b[Rr]outines?\b": "function",
    r"\b[Pp]ortions?\b": "mode, part",
    r"\b[Tt]ick ledger\b": "sample accounting",
}


def prose(page: str) -> list[str]:
    """Return the paragraphs, list items and table cells of a page, without code."""
    page = re.sub(r"^( *)```.*?^\1```", "", page, flags=re.DOTALL | re.MULTILINE)
    page = re.sub(r"`[^`]*`", "`", page)
    page = re.sub(r'"[^"\n]*"', '"', page)  # of words, which CONTRIBUTING names
    page = re.sub(r"\]\([^)]*\)", "]", page)
    parts = re.split(r"\n\s*\n|\n(?=\s*[-*|#] |\s*\d+\. )| \| ", page)
    return [" ".join(part.split()).strip("#-*| ") for part in parts]


def messages(source: str) -> list[str]:
    """Return the strings of a module that are not docstrings, with ` for each value in them."""
    tree = ast.parse(source)
    parts: set[int] = set()  # docstrings, and strings of which `found` has the whole
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            parts.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            values = [(v.value if isinstance(v, ast.Constant) else "`") for v in node.values]
            found.append("".join(map(str, values)))
            parts |= {id(v) for v in node.values}
    found += [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts
    ]
    return [" ".join(text.split()) for text in found if " " in text and "{" not in text]


def asset_texts(path: Path) -> list[str]:
    """Return what a file of the page shows: the text of HTML, the strings of JavaScript."""
    text = path.read_text()
    if path.suffix == ".html":
        return [" ".join(part.split()) for part in re.split(r"<[^>]*>", text)]
    text = re.sub(r"/\*.*?\*/|(?<![:\"'])//[^\n]*", "", text, flags=re.DOTALL)
    return [found.group()[1:-1] for found in re.finditer(r'"[^"\n]* [^"\n]*"|`[^`]* [^`]*`', text)]


def ticks(texts: list[str], patterns: dict[str, str] = TICKS) -> list[str]:
    return [
        f"{found.group()!r}: {instead}"
        for text in texts
        for pattern, instead in patterns.items()
        for found in re.finditer(pattern, text)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_no_ticks(page):
    assert ticks(prose(page.read_text()), TICKS | OLD_WORDS) == []


def test_messages_and_help_have_no_ticks():
    found = [
        f"{path.relative_to(ROOT)}: {tick}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for tick in ticks(messages(path.read_text()))
    ]
    assert found == []


@pytest.mark.parametrize("kind", ["html", "js"])
def test_the_page_for_a_browser_has_no_ticks(kind):
    assets = sorted((ROOT / "src" / "prospect" / "render" / "html" / "assets").glob(f"*.{kind}"))
    assert len(assets) > 1
    assert [(path.name, tick) for path in assets for tick in ticks(asset_texts(path))] == []


@pytest.mark.parametrize("name", prospect.__all__)
def test_the_python_interface_has_no_ticks(name):
    public = getattr(prospect, name)
    members = vars(public).values() if inspect.isclass(public) else ()
    docstrings = [inspect.getdoc(one) or "" for one in (public, *members) if callable(one)]
    assert ticks([" ".join(text.split()) for text in docstrings]) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "What stands there counts.",
        "It is read, where possible, from the file.",
        "Of the files, three are left out.",
        "It runs beside the recorder.",
        "The recorder ends; the file is complete; nothing is lost.",
        "CPU seconds of a processor",
    ],
)
def test_a_tick_is_found(sentence):
    assert ticks([sentence])


@pytest.mark.parametrize(
    "sentence",
    [
        "What changed? The file.",
        "It shows where the time goes, and what it stands for.",
        "Of course, each is read.",
        "Of 12 files, 3 are left out.",
        "It has: a file; a pipe; a socket.",
        "Who called whom",
    ],
)
def test_good_english_is_no_tick(sentence):
    assert ticks([sentence]) == []
