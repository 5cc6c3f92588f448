"""The functions of C sources and the functions that they call, found in the text.

All branches of #if count, so the result is the same on every system. Macros are expanded: those of the file
and of all headers. A call in a macro belongs to the file that uses the macro, and a call in an inline function
to the header that defines it. A function counts as called where its name is used: pointers count as calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

IGNORED = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|\"\"|->|##|[^\s\w]")
DEFINE = re.compile(r"\s*#\s*define\s+(\w+)(\(([^)]*)\))?(.*)")
BRANCH = re.compile(r"\s*#\s*(if|el|endif)")
NAME = re.compile(r"[A-Za-z_]\w*\Z")

Tokens = list[str]
Edges = dict[str, set[str]]


class Macro(NamedTuple):
    parameters: Tokens | None
    body: Tokens


class Source(NamedTuple):
    """What one file defines and calls."""
    shared: set[str]  # functions that other files can call
    calls: dict[str, set[str]]  # names used, by function; those of initialisers by ""


def plain(text: str) -> str:
    """Returns the text without comments and the contents of strings, each directive on one line."""
    text = IGNORED.sub(lambda found: '""' if found[0][0] in "\"'" else " ", text)
    return text.replace("\\\n", " ")


def macros_of(line: str) -> dict[str, Macro]:
    """Returns the macro that a line defines, if any."""
    found = DEFINE.match(line)
    if not found:
        return {}
    parameters = [name.strip().replace("...", "__VA_ARGS__") for name in found[3].split(",")] if found[2] else None
    return {found[1]: Macro(parameters, TOKEN.findall(found[4]))}


def arguments(tokens: Tokens, at: int) -> tuple[list[Tokens], int]:
    """Returns the arguments of a macro whose parenthesis is at `at`, and the position after them."""
    found: list[Tokens] = [[]]
    depth = 0
    while at < len(tokens):
        token = tokens[at]
        at += 1
        depth += (token in "([{") - (token in ")]}")
        if depth == 0:
            break
        if token == "," and depth == 1:
            found.append([])
        elif depth > 1 or token != "(":
            found[-1].append(token)
    return found, at


def substituted(macro: Macro, given: list[Tokens]) -> Tokens:
    """Returns the body of a macro with its arguments, and names pasted together."""
    parameters = macro.parameters or []
    if parameters[-1:] == ["__VA_ARGS__"]:
        rest = [token for one in given[len(parameters) - 1:] for token in [*one, ","]]
        given = [*given[:len(parameters) - 1], rest[:-1]]
    values = dict(zip(parameters, given))
    result: Tokens = []
    paste = False
    for token in macro.body:
        if token == "##":
            paste = True
            continue
        new = values.get(token, [token])
        if paste and result and new:
            result[-1] += new[0]
            new = new[1:]
        result += new
        paste = False
    return result


def expanded(tokens: Tokens, macros: dict[str, Macro], hidden: frozenset[str] = frozenset()) -> Iterator[str]:
    at = 0
    while at < len(tokens):
        token = tokens[at]
        at += 1
        macro = macros.get(token)
        if macro is None or token in hidden:
            yield token
        elif macro.parameters is None:
            yield from expanded(macro.body, macros, hidden | {token})
        elif at < len(tokens) and tokens[at] == "(":
            given, at = arguments(tokens, at)
            given = [list(expanded(one, macros, hidden)) for one in given]
            yield from expanded(substituted(macro, given), macros, hidden | {token})
        else:
            yield token


def tokens_of(text: str, macros: dict[str, Macro]) -> Iterator[str]:
    """Yields the tokens of a file. Its own macros hold from their definition on."""
    macros = dict(macros)
    held: Tokens = []
    for line in text.split("\n"):
        if not line.lstrip().startswith("#"):
            held += TOKEN.findall(line)
            continue
        own, branch = macros_of(line), BRANCH.match(line)
        if own or branch:
            yield from expanded(held, macros)
            held = []
        macros.update(own)
        if branch:
            yield "#" + branch[1]
    yield from expanded(held, macros)


def declared(declaration: Tokens) -> str:
    """Returns the name of the function that is declared before a brace, or ""."""
    if declaration[-1:] != [")"] or "=" in declaration:
        return ""
    depth = 0
    for at in range(len(declaration) - 1, 0, -1):
        depth += (declaration[at] == ")") - (declaration[at] == "(")
        if depth == 0:
            name = declaration[at - 1]
            return name if NAME.match(name) and name != "__attribute__" else ""
    return ""


def parsed(tokens: Iterable[str], header: bool) -> Source:
    source = Source(set(), {"": set()})
    declaration: Tokens = []
    depth, function, before = 0, "", ""
    branches: list[tuple[Tokens, int, str]] = []
    for token in tokens:
        if token == "#if":
            branches.append((declaration[:], depth, function))
        elif token == "#el":  # opens again what the first branch has opened
            declaration, depth, function = branches[-1][0][:], *branches[-1][1:]
        elif token == "#endif":
            branches.pop()
        elif token == "{" and depth == 0 and before == '""':  # extern "C"
            declaration = []
        elif token == "{":
            if depth == 0 and declared(declaration):
                function = declared(declaration)
                source.calls.setdefault(function, set())
                if header or "static" not in declaration:
                    source.shared.add(function)
            depth += 1
        elif token == "}":
            depth = max(0, depth - 1)
            if depth == 0 and function:
                function, declaration = "", []
        elif depth == 0:
            declaration = [] if token == ";" else [*declaration, token]
        if (function or "=" in declaration) and before not in (".", "->") and NAME.match(token):
            source.calls[function].add(token)
        before = token
    if depth:
        raise ValueError("braces do not match")
    return source


def sources_of(texts: dict[str, str]) -> dict[str, Source]:
    texts = {name: plain(text) for name, text in texts.items()}
    macros: dict[str, Macro] = {}
    for name, text in texts.items():
        if name.endswith(".h"):
            for line in text.split("\n"):
                macros.update(macros_of(line))
    return {name: parsed(tokens_of(text, macros), name.endswith(".h")) for name, text in texts.items()}


def homes_of(sources: dict[str, Source]) -> Edges:
    """Returns the units that define a function: X for X.c and X.h. Several do where systems differ."""
    homes: Edges = {}
    for name, source in sources.items():
        for function in source.shared:
            homes.setdefault(function, set()).add(name[:-2])
    return homes


def edges_of(sources: dict[str, Source]) -> Edges:
    """Returns the units that each unit calls."""
    homes = homes_of(sources)
    edges: Edges = {}
    for name, source in sources.items():
        to = edges.setdefault(name[:-2], set())
        for used in set().union(*source.calls.values()) & homes.keys():
            to |= homes[used] - {name[:-2]}
    return edges


def used_by_object(sources: dict[str, Source], name: str) -> set[str]:
    """Returns the names that the object of a .c file uses: its own, and those of the inline functions it calls."""
    inline = {function: source.calls[function]
              for header, source in sources.items() if header.endswith(".h") for function in source.shared}
    found: set[str] = set()
    new = set().union(*sources[name].calls.values())
    while new:
        found |= new
        new = set().union(*(inline[one] for one in new & inline.keys())) - found
    return found


def largest_circle(edges: Edges) -> list[str]:
    """Returns the largest set of units each of which calls, through others of them, all the rest."""
    below: Edges = {}
    for unit in edges:
        new = edges[unit] & edges.keys()
        below[unit] = set()
        while new:
            below[unit] |= new
            new = (set().union(*(edges[one] for one in new)) & edges.keys()) - below[unit]
    circles = [[unit, *sorted(other for other in below[unit] if other != unit and unit in below[other])]
               for unit in sorted(edges)]
    return max(circles, key=len, default=[])
