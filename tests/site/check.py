#!/usr/bin/env python3
"""Checks a site that scripts/site has built: links and anchors lead somewhere, pages load nothing from other
hosts, no markup of Markdown is left in the text, every public function can be searched for. Nothing is fetched.

usage: check.py PROJECT SITE

The status is 0 if all checks pass. Each kind of fault is planted once, and must be found."""

import json
import re
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "law"))
import tap  # noqa: E402

LEFT_OVER = re.compile(r"\]\(|\*\*\w|```|\{ ?[#:.]|\n(?:[-*]|\d+\.) ")
INLINE = {"a", "code", "em", "strong", "span", "br", "img"}
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Page(HTMLParser):
    """Its links, its anchors, what it loads, and its text outside of code."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors, self.loads, self.text, self.code, self.article = [], {"", "__top"}, [], [], 0, 0
        self.feed(text)
        self.text = re.sub(r"\s*\0\s*", "\0", "".join(self.text))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self._block(tag)
        if tag not in VOID:
            self.article += tag == "article" or bool(self.article)
            self.code += tag in ("code", "pre", "script", "style") or bool(self.code)
        self.anchors.update(value for name, value in attrs if value and (name == "id" or (tag, name) == ("a", "name")))
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        rel = values.get("rel") or ""
        if (tag == "link" and values.get("href") and rel not in ("canonical", "prev", "next")) or values.get("src"):
            self.loads.append(values.get("src") or values["href"])

    def _block(self, tag):
        """Blocks do not run together."""
        if tag not in INLINE:
            self.text.append("\0")

    def handle_endtag(self, tag):
        self._block(tag)
        if tag not in VOID:
            self.article, self.code = max(0, self.article - 1), max(0, self.code - 1)

    def handle_data(self, data):
        if self.article and not self.code:
            self.text.append(data)


def other_host(url):
    return urlsplit(url).netloc != ""


def leads_nowhere(site, path, pages, url):
    """Returns the reason, or an empty string if the link is good."""
    parts = urlsplit(url)
    if parts.scheme or parts.netloc:
        return ""
    name = unquote(parts.path)
    to = (site / name[1:] if name.startswith("/") else path.parent / name).resolve() if name else path
    if to.is_dir():
        to /= "index.html"
    if not to.is_file():
        return f"{url}: no such file"
    anchor = unquote(parts.fragment)
    if to.suffix == ".html" and anchor and anchor not in pages[to].anchors:
        return f"{url}: no such anchor"
    return ""


def findings(site):
    site = site.resolve()
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        where = path.relative_to(site)
        for url in dict.fromkeys([*page.links, *page.loads]):
            said = leads_nowhere(site, path, pages, url)
            if said:
                yield f"{where}: {said}"
        yield from (f"{where}: loads {url}" for url in page.loads if other_host(url))
        yield from (f"{where}: left over: {found[0]!r}" for found in LEFT_OVER.finditer(page.text))
    for path in sorted(site.rglob("*.css")):
        for url in re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]+)", path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: loads {url}"


def not_searchable(site, names):
    """Public functions that no title of the search index names."""
    index = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    titles = " ".join(entry["title"] for entry in index["docs"])
    known = set(re.findall(r"gloo_\w+", titles))
    return [f"search does not find {name}" for name in names if name not in known]


GOOD = {"index.html": '<a href="a/b.html#x">b</a><a href="https://example.org/">out</a><img src="i.png">',
        "a/b.html": '<article><h1 id="x">B</h1><p>text <code>](</code></p><a href="../index.html">up</a></article>',
        "i.png": "", "s.css": "a { background: url(i.png) }"}
PLANTED = [
    ("a link to a page that does not exist", {"c.html": '<a href="a/c.html">c</a>'}, "no such file"),
    ("a link to an anchor that does not exist", {"c.html": '<a href="a/b.html#y">c</a>'}, "no such anchor"),
    ("an image that does not exist", {"c.html": '<img src="j.png">'}, "no such file"),
    ("a script of another host", {"c.html": '<script src="https://example.org/s.js"></script>'}, "loads"),
    ("a font of another host", {"t.css": "@font-face { src: url(//example.org/f.woff2) }"}, "loads"),
    ("markup that is left over", {"c.html": "<article><p>see [b](a/b.md)</p></article>"}, "left over"),
    ("a list that is none", {"c.html": "<article><p><em>these:</em>\n- one</p></article>"}, "left over"),
]


def planted(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return list(findings(Path(folder)))


def main(project, site):
    names = re.findall(r"^\s+(gloo_\w+);$", (project / "gloo_c.map").read_text(encoding="utf-8"), re.M)
    found = list(findings(site))
    unknown = not_searchable(site, names)
    checks = [("links lead somewhere, nothing comes from other hosts, no markup is left", not found),
              ("every public function can be searched for", not unknown and len(names) >= 100),
              ("there are many pages", sum(1 for _ in site.rglob("*.html")) >= 60),
              ("a name that is not in the index is missed", bool(not_searchable(site, ["gloo_planted"]))),
              ("a good site is good", not planted(GOOD))]
    checks += [(f"planted: {what}", any(said in line for line in planted({**GOOD, **files})))
               for what, files, said in PLANTED]
    tap.report(checks, [*found, *unknown])
    sys.exit(0 if all(good for _, good in checks) else 1)


main(Path(sys.argv[1]), Path(sys.argv[2]))
