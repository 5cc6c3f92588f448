"""Links in Markdown lead somewhere, to a heading where they name one, and so do pages of docs/
that are named in sources. Nothing is fetched: addresses with a scheme are left alone.

usage: links.py PROJECT"""

import re
import sys
import tempfile
from pathlib import Path

import tap

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]*)(?:\s+\"[^\"]*\")?\)")
SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:")
# A page as sources name it: docs/a/b.md, docs/a/*.md, docs/adr/0001.
NAMED = re.compile(r"\bdocs/(?:[\w*-]+/)*(?:[\w*-]+\.md|\d{4}\b)")
SOURCES = ("*.c", "*.h", "*.py", "*.sh", "meson.build", "*.md", "*.txt")
SCRIPTS = ("scripts", ".ci", "bench")


def files(project, patterns):
    for pattern in patterns:
        for path in sorted(project.rglob(pattern)):
            parts = path.relative_to(project).parts
            if path.is_file() and not parts[0].startswith(("build", ".git")):
                yield path


def scripts(project):
    for folder in SCRIPTS:
        if (project / folder).is_dir():
            yield from (path for path in sorted((project / folder).iterdir())
                        if path.is_file() and path.suffix == "")


def prose(text):
    """Returns the text without code, in which brackets have another meaning."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    text = re.sub(r"^(?: {4}|\t).*$", "", text, flags=re.M)
    return re.sub(r"`[^`\n]*`", "``", text)


def anchors(path):
    """Returns the anchors of the headings, as web pages have them."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    found, times = set(), {}
    for heading in re.findall(r"^#{1,6} +(.*?) *#*$", text, re.M):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
        seen = times.get(name, 0)
        times[name] = seen + 1
        found.add(f"{name}-{seen}" if seen else name)
    return found


def broken_links(project):
    for page in files(project, ["*.md"]):
        where = page.relative_to(project)
        for target in LINK.findall(prose(page.read_text(encoding="utf-8"))):
            if SCHEME.match(target):
                continue
            path, _, anchor = target.partition("#")
            to = (page.parent / path).resolve() if path else page
            if not to.exists() or project.resolve() not in [to.resolve(), *to.resolve().parents]:
                yield f"{where}: there is no {target}"
            elif anchor and (to.suffix != ".md" or anchor not in anchors(to)):
                yield f"{where}: {target} has no such heading"


def unknown_pages(project):
    this = Path(__file__).resolve()
    for path in [*files(project, SOURCES), *scripts(project)]:
        if path.resolve() == this:
            continue
        for name in sorted(set(NAMED.findall(path.read_text(encoding="utf-8", errors="replace")))):
            pattern = name if name.endswith(".md") else name + "*"
            if not any(project.glob(pattern)):
                yield f"{path.relative_to(project)}: there is no {name}"


def islands(project):
    """Returns pages of docs/ without a link to them."""
    linked = {(page.parent / target.partition("#")[0]).resolve()
              for page in files(project, ["*.md"])
              for target in LINK.findall(prose(page.read_text(encoding="utf-8")))
              if not SCHEME.match(target) and not target.startswith("#")}
    return [f"{path.relative_to(project)}: no page links to it"
            for path in files(project / "docs", ["*.md"]) if path.resolve() not in linked]


def findings(project):
    return [*broken_links(project), *unknown_pages(project), *islands(project)]


def planted(pages):
    """Returns the errors that are found in a project of these files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in pages.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return findings(Path(folder))


GOOD = {"README.md": "[a](docs/a.md#one-two) [b](#b-c) `[x](y)`\n\n    [x](y)\n\n# b `c`\n",
        "docs/a.md": "# One, two\n\n[up](../README.md) [out](https://example.org/x#y)\n",
        "src/a.c": "/* docs/a.md */\n"}


def main(project):
    found = findings(project)
    checks = [
        ("links lead somewhere, and every page is linked", not found),
        ("there are many", sum(1 for _ in files(project, ["*.md"])) >= 60),
        ("good pages are good", not planted(GOOD)),
        ("a file that is not there is found",
         planted({**GOOD, "x.md": "[a](docs/b.md)"}) == ["x.md: there is no docs/b.md"] * 2),
        ("a heading that is not there is found",
         planted({**GOOD, "x.md": "[a](docs/a.md#three)"})
         == ["x.md: docs/a.md#three has no such heading"]),
        ("a page that a source names and is not there is found",
         planted({**GOOD, "src/b.c": "/* docs/b.md, docs/adr/0001 */"})
         == ["src/b.c: there is no docs/adr/0001", "src/b.c: there is no docs/b.md"]),
        ("a page that nothing links to is found",
         planted({**GOOD, "docs/b.md": "# B"}) == ["docs/b.md: no page links to it"]),
    ]
    tap.report(checks, found)


main(Path(sys.argv[1]))
