"""Hooks of MkDocs for scripts/site.

Pages are added: the reference, and the pages of the project's root (README.md and others). The navigation
follows from folders; within a folder pages stand in the order in which docs/index.md, or the folder's
README.md, links to them. Links to files that the site does not have become text. Names of the C interface
in code become links to the reference."""

import importlib.machinery
import importlib.util
import os
import posixpath
import re
import sys
from pathlib import Path

from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url

PROJECT = Path(__file__).resolve().parent.parent.parent
# Section, and the folders of docs/ in it; pages of docs/ itself and of the root by name.
SECTIONS = {"Guide": ["guide"], "Environment": ["environment.md"], "Migrate": ["migrate"], "Reference": ["reference"],
            "Internals": ["contributing.md", "internals"], "Decisions": ["adr"], "Measurements": ["lab"]}
FENCE = r"^```.*?^```$"
CODE = r"^(?: {4}|\t)[^\n]*$|`[^`\n]+`"
LINK = re.compile(rf"{FENCE}|(!?)\[([^\]]*)\]\(([^)\s]*)\)|{CODE}", re.M | re.S)


def load_reference():
    """scripts/reference as a module."""
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("reference", str(PROJECT / "scripts/reference"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("reference", loader))
    loader.exec_module(module)
    return module


reference = load_reference()
headers = reference.read_headers(PROJECT)
declared = reference.Markdown(headers).where  # name: header
root_pages = {}  # page: file in the root


# ---- pages -----------------------------------------------------------------------------------

def on_files(files, config):
    for path in sorted(PROJECT.glob("*.md")):
        page = "about.md" if path.stem == "README" else path.name.lower()
        root_pages[page] = path.name
        files.append(File.generated(config, page, content=path.read_text(encoding="utf-8")))
    for name, text in reference.markdown_pages(headers, reference.version(PROJECT)).items():
        files.append(File.generated(config, f"reference/{name}", content=text))
    command = os.environ.get("SITE_COMMAND_REFERENCE")  # scripts/site makes the file
    if command:
        files.append(File.generated(config, "reference/gloo.md", content=Path(command).read_text(encoding="utf-8")))
    config.nav = navigation([file.src_uri for file in files.documentation_pages()])
    return files


# ---- navigation ------------------------------------------------------------------------------

def linked_from(page):
    """Pages in the order in which a page of docs/ links to them."""
    path = PROJECT / "docs" / page
    if not path.is_file():
        return []
    targets = [found[3].partition("#")[0] for found in LINK.finditer(path.read_text(encoding="utf-8")) if found[3]]
    return [site_page(source_path(page), target) for target in targets]


def section_of(page):
    for section, members in SECTIONS.items():
        if page in members or posixpath.dirname(page) in members:
            return section
    folder = page.partition("/")[0] if "/" in page else ""
    return folder.replace("-", " ").capitalize() or "Guide"


def navigation(pages):
    ranks = linked_from("index.md")
    sections = {section: [] for section in SECTIONS}
    for page in pages:
        if page != "index.md":
            sections.setdefault(section_of(page), []).append(page)
    nav = [{"Home": "index.md"}]
    for section, members in sections.items():
        folder = posixpath.dirname(members[0]) if members else ""
        order = [*ranks, *linked_from(f"{folder}/README.md")]

        def place(page, order=order):
            rank = 0 if page.endswith(("/README.md", "/index.md")) else 1 if page == "reference/gloo.md" else 2
            return rank, order.index(page) if page in order else len(order), page

        members.sort(key=place)
        members = [{"About": page} if page == "about.md" else page for page in members]
        if members == [f"{section.lower()}.md"]:
            nav.append({section: members[0]})
        elif members:
            nav.append({section: members})
    return nav


# ---- links -----------------------------------------------------------------------------------

def source_path(page):
    """Where a page's text is in the tree."""
    return root_pages.get(page, f"docs/{page}")


def site_page(source, target):
    """The page, or other file of the site, to which a target in a file of the tree leads; or None."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if path in root_pages.values():
        return next(page for page, name in root_pages.items() if name == path)
    if path == "include/gloo_c":
        return "reference/index.md"
    if re.fullmatch(r"include/gloo_c/\w+\.h", path):
        return f"reference/{posixpath.basename(path)}.md"
    if not path.startswith("docs/"):
        return None
    if (PROJECT / path).is_dir():
        path = next((f"{path}/{name}" for name in ("README.md", "index.md")
                     if (PROJECT / path / name).is_file()), path)
    return path.removeprefix("docs/")


def title(page):
    """The heading of a page of the tree, without markup."""
    path = PROJECT / source_path(page)
    found = re.search(r"^# (.*)$", path.read_text(encoding="utf-8"), re.M) if path.is_file() else None
    return found[1] if found else page


def rewritten(source, page, found):
    """A link as the page needs it. A file's name as its text becomes the title of the page."""
    image, text, target = found[1], found[2], found[3]
    if target is None or target.startswith("#") or re.match(r"[a-z][a-z0-9+.-]*:", target):
        return found[0]
    path, mark, anchor = target.partition("#")
    to = site_page(source, path)
    if to is not None:
        if re.fullmatch(r"[\w./-]+\.md", text):
            text = title(to)
        return f"{image}[{text}]({posixpath.relpath(to, posixpath.dirname(page) or '.')}{mark}{anchor})"
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if not (PROJECT / path).exists():
        return found[0]  # the strict build names it
    bare = text.strip("`")
    if posixpath.basename(path) == posixpath.basename(bare.rstrip("/")):
        return f"`{path}`"
    return f"{text} (`{path}`)"


def plain_lists(lines):
    """Lists as Python-Markdown needs them: four spaces before what belongs to an item, where two or three are
    usual, and an empty line between a paragraph and a list."""
    out, paragraph = [], False
    while lines:
        line, *lines = lines
        item = re.match(r"(?:[-*+]|\d+\.) +", line)
        if item and paragraph and not line[0].isdigit():
            out.append("")
        out.append(line)
        paragraph = bool(line.strip()) and not item
        end = 0
        if line.startswith("```"):
            end = next((i + 1 for i, other in enumerate(lines) if other.startswith("```")), len(lines))
            out += lines[:end]
        elif item:
            while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" " * len(item[0]))):
                end += 1
            inner = plain_lists([other[len(item[0]):] for other in lines[:end]])
            out += [f"    {other}" if other else "" for other in inner]
            paragraph = "" in inner and inner[-1] != ""
        lines = lines[end:]
    return out


def on_page_markdown(markdown, page, config, files):
    name = page.file.src_uri
    if name.startswith("reference/"):
        return markdown
    source = source_path(name)
    markdown = LINK.sub(lambda found: rewritten(source, name, found), markdown)
    return "\n".join(plain_lists(markdown.split("\n")))


# ---- names of the C interface ----------------------------------------------------------------

NAMES = re.compile(r"<a .*?</a>|<h\d.*?</h\d>"
                   r"|<code>(\w+)(?:\(\))?</code>|(?<=<span class=\"[nk]\">)(\w+)(?=</span>)"
                   r"|(?<=<span class=\"[nk][a-z]\">)(\w+)(?=</span>)", re.S)


def on_page_content(html, page, config, files):
    urls = {file.src_uri: file.url for file in files.documentation_pages()}

    def linked(found):
        name = found[1] or found[2] or found[3]
        if name not in declared:
            return found[0]
        to = get_relative_url(urls[f"reference/{declared[name]}.md"], page.url)
        if urls[f"reference/{declared[name]}.md"] == page.url:
            to = ""
        return f'<a href="{to}#{name}">{found[0]}</a>'

    return NAMES.sub(linked, html)
