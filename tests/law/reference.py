"""Comments of public functions say what they must, and the reference made of them is whole.

Every function has a comment with errors, threads and ownership, and with the shape of buffers and
lists that it takes. scripts/reference makes a page for each function that gloo_c.map lists, and
for no other; its links lead somewhere. Each header has an example that compiles. Planted mistakes
are found.

usage: reference.py PROJECT C_COMPILER..."""

import importlib.machinery
import importlib.util
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import tap

INCLUDES = "".join(f"#include <{name}>\n" for name in
                   ("gloo_c/gloo_c.h", "stdint.h", "stdio.h", "stdlib.h", "string.h"))
FLAGS = ["-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function",
         "-fno-diagnostics-show-caret"]
NEEDED = ("Errors", "Threads", "Ownership")
# Arguments of callbacks are not buffers.
BUFFER = re.compile(r"^(?:const )?void \*\*?(?!user$)\w+$|\*const \*"
                    r"|^const (?:size_t|int|gloo_value) \*")


def load(path):
    loader = importlib.machinery.SourceFileLoader("reference", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("reference", loader))
    loader.exec_module(module)
    return module


# ---- the checks: what is wrong, a line each -------------------------------------------------

def bad_comments(headers):
    for header in headers:
        for function, comment in header.functions():
            where = f"{header.name}: {function.name}"
            if comment is None:
                yield f"{where} has no comment"
                continue
            if not comment.blocks:
                yield f"{where}: what does it do?"
            for label in NEEDED:
                if not comment.parts.get(label):
                    yield f"{where} has no \"{label}:\""
            buffers = [p for p in function.parameters if BUFFER.search(p)]
            if buffers and not comment.parts.get("Shape"):
                yield f"{where} takes {buffers[0]}, but has no \"Shape:\""


def map_names(text):
    return set(re.findall(r"^\s+(gloo_\w+);$", text, re.M))


def bad_pages(headers, exported, folder):
    """Compares man pages and anchors in Markdown with the map and the headers."""
    declared = {d.name for header in headers for d, _ in header.functions()}
    man = {path.stem for path in (folder / "man3").iterdir()}
    texts = {path.name: path.read_text(encoding="utf-8") for path in (folder / "markdown").iterdir()}
    anchors = {f"{page}#{name}" for page, text in texts.items()
               for found in re.findall(r'<a id="(\w+)"|\{ #(\w+) ', text) for name in found if name}
    in_pages = {anchor.partition("#")[2] for anchor in anchors}
    yield from (f"there is no man page of {name}" for name in sorted(exported - man))
    yield from (f"{name} is not in the pages in Markdown" for name in sorted(exported - in_pages))
    yield from (f"a page of {name}, which no header declares" for name in sorted(man - declared))
    for page in sorted((folder / "man3").iterdir()):
        other = re.match(r"\.so man3/(\w+)\.3\n$", page.read_text(encoding="utf-8"))
        if other and other[1] not in man:
            yield f"{page.name} leads to {other[1]}, which is not there"
    for page, text in sorted(texts.items()):
        for to in sorted(set(re.findall(r"\]\(([^)\s]+)\)", text))):
            if (page + to if to.startswith("#") else to) not in anchors and to not in texts:
                yield f"{page}: a link to {to} leads nowhere"


def bad_example(header, project, compiler):
    if header.head is None or not header.head.example:
        return f"{header.name}: no \"Example:\" in its head"
    with tempfile.NamedTemporaryFile("w", suffix=".c") as file:
        file.write(f'{INCLUDES}#line 1 "{header.name}"\n{header.head.example}')
        file.flush()
        done = subprocess.run([*compiler, *FLAGS, f"-I{project / 'include'}", file.name],
                              capture_output=True, text=True, check=False)
    return done.stderr or ("it failed" if done.returncode else "")


# ---- planted mistakes -----------------------------------------------------------------------

GOOD = """/* A head.
 *
 * Example:
 *
 *     int f(void) { return 0; }
 */
/* What it does.
 * Shape: n of them.
 * Errors: none. Threads: any.
 * Ownership: nothing stays. */
GLOO_API void gloo_planted(const size_t *counts, void *user);
GLOO_API void gloo_planted_start(const size_t *counts);
"""
PLANTED = [
    ("no comment", r"/\* What it does.*stays\. \*/\n", "", "no comment"),
    ("a comment with an empty line below", r"stays\. \*/\n", "stays. */\n\n", "no comment"),
    ("no text", "What it does.\n \\* Shape", "Shape", "what does it do"),
    ("no errors", "Errors: none. ", "", '"Errors:"'),
    ("empty errors", "Errors: none. ", "Errors: ", '"Errors:"'),
    ("no threads", "Threads: any.", "", '"Threads:"'),
    ("no ownership", "\n \\* Ownership: nothing stays.", "", '"Ownership:"'),
    ("no shape of a list", "\n \\* Shape: n of them.", "", '"Shape:"'),
]


def planted_comments(reference):
    """(what, was it found)"""
    yield "a good comment is good", not list(bad_comments([reference.Header("p.h", GOOD)]))
    for what, old, new, said in PLANTED:
        text = re.sub(old, new, GOOD, count=1, flags=re.S)
        found = list(bad_comments([reference.Header("p.h", text)]))
        yield f"planted: {what}", text != GOOD and any(said in line for line in found)
    for parameter in ("void *memory", "void *const *outputs", "const void *const *inputs",
                      "const int *ranks", "gloo_request *const *requests", "const void *input",
                      "void **memory"):
        text = GOOD.replace("\n * Shape: n of them.", "").replace("const size_t *counts", parameter)
        found = list(bad_comments([reference.Header("p.h", text)]))
        yield f"planted: no shape of {parameter}", any(parameter in line for line in found)


def planted_pages(reference, folder):
    headers = [reference.Header("p.h", GOOD)]
    names = {"gloo_planted", "gloo_planted_start"}
    (folder / "markdown").mkdir()
    (folder / "man3").mkdir()

    def made():
        reference.write_markdown(headers, "0", folder / "markdown")
        reference.write_man(headers, "0", folder / "man3")

    made()
    yield "pages of a good header are good", not list(bad_pages(headers, names, folder))
    found = list(bad_pages(headers, names | {"gloo_absent"}, folder))
    yield "planted: an exported function without a page", len(found) == 2
    (folder / "man3/gloo_stray.3").write_text("", encoding="utf-8")
    found = list(bad_pages(headers, names, folder))
    yield "planted: a page without a declaration", any("gloo_stray" in line for line in found)
    made()
    yield "old pages go", not list(bad_pages(headers, names, folder))
    (folder / "man3/gloo_planted.3").unlink()
    found = list(bad_pages(headers, names, folder))
    yield "planted: a page that leads nowhere", any("leads to" in line for line in found)
    made()
    (folder / "markdown/index.md").write_text("[x](p.h.md#gloo_gone)", encoding="utf-8")
    found = list(bad_pages(headers, names, folder))
    yield "planted: a link that leads nowhere", any("nowhere" in line for line in found)


def planted_examples(reference, project, compiler):
    for what, text in (("no example", GOOD.replace("Example:", "An example:")),
                       ("an example that does not compile", GOOD.replace("return 0", "return"))):
        found = bad_example(reference.Header("p.h", text), project, compiler)
        yield f"planted: {what}", bool(found)


# ---- all of it ------------------------------------------------------------------------------

def results(project, compiler):
    """(what, is it so, lines that say why not)"""
    reference = load(project / "scripts/reference")
    headers = reference.read_headers(project)
    said = list(bad_comments(headers))
    yield "comments of functions say what they must", not said, said
    functions = [d for header in headers for d, _ in header.functions()]
    shapes = [d for d in functions if any(BUFFER.search(p) for p in d.parameters)]
    yield "there are many functions, many with buffers", (
        len(functions) >= 140 and len(shapes) >= 80), [f"{len(functions)}, {len(shapes)}"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, project / "scripts/reference", folder],
                              capture_output=True, text=True, check=False)
        yield "scripts/reference works", done.returncode == 0, done.stderr.splitlines()
        exported = map_names((project / "gloo_c.map").read_text(encoding="utf-8"))
        said = list(bad_pages(headers, exported, Path(folder)))
        yield "each exported function has a page, and no other", not said and exported, said
    for header in headers:
        said = bad_example(header, project, compiler)
        yield f"the example of {header.name} compiles", not said, said.splitlines()
    with tempfile.TemporaryDirectory() as folder:
        for what, good in (*planted_comments(reference), *planted_pages(reference, Path(folder)),
                           *planted_examples(reference, project, compiler)):
            yield what, good, []


def main(project, compiler):
    all_of_them = list(results(project, compiler))
    tap.report([(what, good) for what, good, _ in all_of_them],
               [line for _, good, said in all_of_them if not good for line in said])


main(Path(sys.argv[1]), sys.argv[2:])
