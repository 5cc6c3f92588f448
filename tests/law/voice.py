"""Comments and messages are plain English: constructs that read as if translated are counted,
as a share of the comments of a folder, and there are at most as many as LIMITS allows.

usage: voice.py PROJECT [--list [FOLDER]]"""

import re
import sys
import tempfile
from pathlib import Path

import tap

# Percent of the comments of at least four words; number of messages.
LIMITS = {
    "src": 0.1, "include": 0.0, "tools": 0.0, "tests": 0.1, "bench": 0.0, "examples": 0.0, "python": 0.0,
}  # fmt: skip
MESSAGES = ("src", "tools", "python")
MESSAGE_LIMIT = 0

# A construct, and a sentence that has it.
COMMENT = [
    # The opening of a comment: a noun, or a verb for the action of a function.
    (r"^([Oo]f|[Tt]hose|[Ww]hat|[Ww]ho|[Ww]hose|[Ww]hom|[Ww]hich|[Tt]o whom|[Nn]obody)\b", "What a ring holds now."),
    (r"^([Tt]he same|That|These|They|It|Theirs)\b(?! (as|of|for) )", "It is closed by the poll."),
    (r"^(How (much|many|long|often|it)|Where (it|this|that|they|to)|Whether|All that|One that)\b", "How many bytes there are."),
    (r"^[^.:;]*\?( [A-Z][^.]*\.?)?$", "Is the ring empty?"),
    # Pronouns in place of nouns.
    (r"\b(nobody|somebody|whoever|everybody|anybody)\b", "A socket that nobody reads."),
    (r"(?:[.;:,] )who (?!(?:asks|are)\?)|[.;:] [Ww]ho ", "The peer is lost: who waits learns it."),
    (r"\bof (those|theirs|such)\b", "Most of those are empty here."),
    (r"\b(that|which) (one|there) (is|are|was)\b|\bones? (own|that)\b", "The link, and which one is lost."),
    (r"\bthat there (is|are|was|were)\b", "The threads that there are wait."),
    # Verbs with plainer alternatives.
    (r"\b(is|are|was|were|be|been) (over|told|lent|owed|to be had|no more)\b", "The operation is over by then."),
    (r"\b(is|are|was) there( (any ?more|now|already|yet|at all))?(?=[.,;:]|$)", "The key that the rank needs is there."),
    (r"\bwhich (is|are) asked\b|\b(has|have) to itself\b|\bin common with\b", "The core that it has to itself runs."),
    (r"\bso (many|much|often)\b(?! (as|that))|\b(for ever|lest|in vain|makes? no sense|had better)\b", "A rank that has waited in vain stops."),
    (r"\bsigns? of life\b|\bstumbles?\b|\bdo(es)? without\b|\bcannot be told\b|\bat whose\b", "A rank gives signs of life."),
    (r", for (it|they|that|what|there|where|the|each|in|he|a)\b", "The lock is held, for the peer may look."),
]  # fmt: skip
MESSAGE = [
    (r"\b(is|are|was) no(?! (longer|more than|such))\b", "'rign' is no size"),
    (r"\bthere (is|are|was|were) (no|none|nobody)\b", "there is no place for the request"),
    (r"\b(nobody|somebody|whoever|of those|those (that|who)|which of)\b", "nobody listens at this port"),
    (r"\b(is|are|was|were) (told|over|there|gone|said|meant|to be had)\b", "peers are told nothing"),
    (r"\bmakes? no sense\b|\bas in\b|\bdo without\b|\bends? well\b|\bin vain\b|\bof no use\b", "a list that makes no sense"),
    (r"(^|[:;] )(what|who|whose|which) (?!(is|are) (the|your)\b)[^?]*$|, (what|who|whose)\b", "what was sent is lost"),
    (r"\b1 (ranks|cores|hosts|pairs|bytes|threads|operations)\b", "1 ranks share the core"),
    (r", for (it|they|that|there|the|each)\b", "it waits, for the peer has not come"),
]  # fmt: skip


def comments(text):
    """Yields (line number, words) of comments; consecutive comments of one line each are joined."""
    for match in re.finditer(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', text, re.S):
        if match.group().startswith('"'):
            continue
        words = " ".join(re.sub(r"^/\*+|\*+/$|^//+|^\s*\*+", " ", match.group(), flags=re.M).split())
        if len(words.split()) >= 4 and not words.startswith("----"):
            yield text.count("\n", 0, match.start()) + 1, words


def messages(text):
    """Yields (line number, words) of string literals that are sentences; adjacent ones are one."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", lambda match: re.sub(r"[^\n]", " ", match.group()), text, flags=re.S)
    for match in re.finditer(r'"(?:\\.|[^"\\\n])*"(?:(?:\s|PRI\w+)*"(?:\\.|[^"\\\n])*")*', text):
        words = " ".join("".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', match.group())).split())
        if len(re.findall(r"(?<![\w%])[a-z]{2,}\b", words)) >= 4:
            yield text.count("\n", 0, match.start()) + 1, words


def odd(words, table):
    return any(re.search(pattern, words) for pattern, _ in table)


def found_in(root, texts, table, suffixes):
    """Returns the number of texts, and a line for each that has a construct."""
    count, lines = 0, []
    for path in sorted(root.rglob("*")):
        if path.suffix in suffixes:
            for number, words in texts(path.read_text(encoding="utf-8")):
                count += 1
                if odd(words, table):
                    lines.append(f"{path}:{number}: {words[:150]}")
    return count, lines


def checks_of(project):
    checks, found = [], []
    for root, limit in LIMITS.items():
        count, lines = found_in(project / root, comments, COMMENT, (".c", ".h"))
        share = 100 * len(lines) / max(1, count)
        name = f"{root}: {len(lines)} of {count} comments = {share:.1f} %, at most {limit} %"
        checks.append((name, count > 0 and share <= limit))
        found += lines[:10] if share > limit else []
    lines = [line for root in MESSAGES for line in found_in(project / root, messages, MESSAGE, (".c", ".h"))[1]]
    checks.append((f"{len(lines)} messages, at most {MESSAGE_LIMIT}", len(lines) <= MESSAGE_LIMIT))
    found += lines[:10] if len(lines) > MESSAGE_LIMIT else []
    return checks, found


def planted():
    """Checks that each construct is found, in a tree with its sentence only."""
    checks = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plant.c"
        for texts, table, form in (comments, COMMENT, "/* {} */\n"), (messages, MESSAGE, 'puts("{} %d");\n'):
            silent = []
            for pattern, sentence in table:
                path.write_text(form.format(sentence), encoding="utf-8")
                if not found_in(Path(folder), texts, [(pattern, sentence)], (".c",))[1]:
                    silent.append(sentence)
            path.write_text(form.format("Returns the number of ranks that are connected"), encoding="utf-8")
            silent += found_in(Path(folder), texts, table, (".c",))[1]
            checks.append((f"each construct of a {texts.__name__[:-1]} is found" + "".join(f": not {s!r}" for s in silent),
                           not silent))
    return checks


def main():
    project = Path(sys.argv[1])
    if sys.argv[2:3] == ["--list"]:
        for root in sys.argv[3:] or LIMITS:
            print("\n".join(found_in(project / root, comments, COMMENT, (".c", ".h"))[1]))
        for root in sys.argv[3:] or MESSAGES:
            print("\n".join("message: " + line for line in found_in(project / root, messages, MESSAGE, (".c", ".h"))[1]))
        return
    checks, found = checks_of(project)
    tap.report(checks + planted(), found)


main()
