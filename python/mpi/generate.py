"""Generates the C source of the symbols that MPItrampoline requires and the other C files here do
not define: all constants, and stubs that return an error.

usage: generate.py ABI_LIST OUTPUT C_FILE..."""

import re
import sys
from pathlib import Path

C_TYPES = {"int": "int", "error": "int", "type": "mpi_handle", "op": "mpi_handle",
           "handle": "mpi_handle", "pointer": "mpi_handle", "offset": "int64_t"}
# First value of constants without a value, so that no two of them are equal.
FIRST = {"int": 100, "error": 1, "handle": 0x100}
# Functions that do not return an error class: their type and their result.
RESULTS = {"int": ("int", None), "handle": ("mpi_handle", "0"), "aint": ("ptrdiff_t", "0")}
VERSIONS = """const int mpiwrapper_version_major = 2;
const int mpiwrapper_version_minor = 10;
const int mpiwrapper_version_patch = 0;
const int mpiabi_version_major = 2;
const int mpiabi_version_minor = 9;
const int mpiabi_version_patch = 0;
"""


def abi_name(name):
    """Returns the name in the ABI: MPI_Send is MPIABI_Send there, and MPIX_... is MPIXABI_..."""
    return re.sub("^(MPIX?)_", r"\1ABI_", name)


def constants(lines):
    """Returns the definitions of the constants, and the tables of types and operations."""
    numbers, tables, code = dict(FIRST), {"type": [], "op": []}, []
    for kind, name, *value in lines:
        if kind in tables:
            # A handle is the constant's index in its table.
            number = f"MPI_FIRST_{kind.upper()} + {len(tables[kind])}"
            tables[kind].append((name, value[0] if value else "-1"))
        elif value:
            number = value[0]
        else:
            number = numbers[kind]
            numbers[kind] += 1
        code.append(f"{C_TYPES[kind]} {abi_name(name)} = {number};")
    for kind, entries in tables.items():
        rows = "".join(f'\n  {{"{name}", {value}}},' for name, value in entries)
        code.append(f"const mpi_meaning mpi_{kind}s[] = {{{rows}\n}};")
        code.append(f"const size_t mpi_{kind}s_count = {len(entries)};")
    return code


def refusals(lines, written):
    """Returns a stub for each function that is not defined elsewhere."""
    code = []
    for _, result, name in lines:
        if abi_name(name) in written:
            continue
        kind, value = RESULTS[result]
        refuse = f'mpi_refuse("{name}")'
        body = f"return {refuse};" if value is None else f"{refuse}; return {value};"
        code.append(f"{kind} {abi_name(name)}(void);")
        code.append(f"{kind} {abi_name(name)}(void) {{ {body} }}")
    return code


def main(abi_list, output, *sources):
    lines = [line.split(None, 2) for line in Path(abi_list).read_text(encoding="utf-8").splitlines()
             if line and not line.startswith("#")]
    functions = [line for line in lines if line[0] == "function"]
    text = "\n".join(Path(source).read_text(encoding="utf-8") for source in sources)
    written = set(re.findall(r"^\w+ (MPIX?ABI_\w+)\(", text, re.M))
    unknown = written - {abi_name(name) for _, _, name in functions}
    if unknown:
        sys.exit(f"not in {abi_list}: {', '.join(sorted(unknown))}")
    # Callers pass arguments that a stub does not have. That is undefined in C, but harmless in the
    # calling conventions that MPItrampoline supports, where the caller removes the arguments.
    code = ['#include "abi.h"', '#pragma GCC visibility push(default)', VERSIONS,
            "void mpiwrapper_export_fortran_constants_(void) {}",
            *constants([line for line in lines if line[0] != "function"]),
            *refusals(functions, written), "#pragma GCC visibility pop"]
    Path(output).write_text("\n".join(code) + "\n", encoding="utf-8")


main(*sys.argv[1:])
