"""CHANGELOG.md, README.md and docs/migrate/ do not call a feature missing that the tree has.

A unit of text is a sentence, a list item or a table row. It is wrong if it names a feature of the table
below and calls it missing: by one of the words of ABSENT, by "no" in front of the name, by a dash in the
second cell of its row, or by standing below a heading "No counterpart".

usage: missing.py PROJECT"""

import re
import sys
from pathlib import Path

import tap

# Name, pattern in the text, file and string that prove that the feature exists, a wrong sentence.
FEATURES = [
    ("TLS", r"TLS\b|TCP_OPENSSL|`(?:--)?(?:pkey|cert|ca[-_]file)`", "include/gloo_c/tls.h", "gloo_tls_options",
     "TLS is planned."),
    ("authentication", r"[Aa]uthenticat|job secrets?\b", "include/gloo_c/context.h", "secret_bytes", "Authentication: not yet."),
    ("RDMA", r"RDMA(?! from)|ibverbs|IBVERBS|`--ib-", "meson_options.txt", "option('ibverbs'", "No TLS, RDMA or other networks."),
    ("NCCL_IB_*", r"NCCL_IB_(?:HCA|GID_INDEX|TC|SL|PKEY|…|\*|\.\.\.)", "src/transport_ibv", '"GLOO_IBV_GID_INDEX"',
     "| `NCCL_IB_…` | – | |"),
    ("CUDA memory", r"(?:CUDA|GPU|device) (?:memory|buffers?)", "meson_options.txt", "option('cuda'", "No RDMA or CUDA memory."),
    ("streams", r"\bCUDA streams\b", "include/gloo_c/request.h", "gloo_request_wait_stream", "There are no CUDA streams."),
    ("PyTorch backend", r"PyTorch backend|backend (?:for|of) PyTorch", "python/gloo_c_autoload.py", "register_backend",
     "| a backend for PyTorch | planned |"),
    ("JAX", r"\bJAX\b", "python/gloo_c/jax", "def ", "JAX is not supported."),
    ("Python", r"\bPython\b|other bindings", "meson_options.txt", "option('python'", "No Python package."),
    ("shrink", r"[Ss]hrink(?!Share)", "gloo_c.map", "gloo_context_shrink;", "| `ncclCommShrink` | planned |"),
    ("grow", r"[Cc]omm_?[Gg]row|\bgrow(?:ing)?\b", "gloo_c.map", "gloo_context_grow;", "| `ncclCommGrow` | – | |"),
    ("groups", r"Comm_?[Ss]plit\b|sub-?groups", "gloo_c.map", "gloo_context_split;", "| `MPI_Comm_split` | – | |"),
    ("one-sided", r"[Oo]ne-sided|MPI_(?:Put|Get|Win_create)`|ncclPutSignal", "gloo_c.map", "gloo_window_put;",
     "One-sided operations are not implemented."),
    ("signals", r"[Pp]uts? with (?:a )?signals?|shmem_putmem_signal|nccl(?:Wait)?Signal", "gloo_c.map", "gloo_window_put_signal;",
     "| `ncclWaitSignal` | planned |"),
    ("registration", r"`?(?:ncclCommRegister|gloo_memory_register)`?", "gloo_c.map", "gloo_memory_register;",
     "| `ncclCommRegister` | – | |"),
    ("metrics", r"\b[Mm]etrics\b|MPI_T_|NCCL_RAS_", "gloo_c.map", "gloo_context_metrics;", "| `MPI_T_…` | not planned |"),
    ("launchers", r"\b(?:PMIx?|Slurm|srun|mpirun)\b", "src/rendezvous/launch", "PMIX_RANK", "Slurm and PMI are planned."),
    ("interface lists", r"_SOCKET_IFNAME\b", "src/net", "altname", "`NCCL_SOCKET_IFNAME` takes no prefixes."),
    ("deadlines", r"\bgetTimeout|setTimeout", "gloo_c.map", "gloo_context_set_timeout;", "| `setTimeout` | – | |"),
    ("Redis", r"\bRedis\b", "meson_options.txt", "option('redis'", "No Redis store."),
]
ABSENT = (r"\bplanned\b|\bnot (?:yet )?(?:there|supported|implemented|available)\b|\bnot yet\.?$|\bnot a list\b|\bno prefixes\b"
          r"|\bnothing that they would set\b|\bunsupported\b")
BEFORE = r"\b[Nn]o (?:[\w./-]+(?:, (?:or |and )?| or | and | nor ))*(?:no )?"


def pages(project):
    return [project / "CHANGELOG.md", project / "README.md", *sorted((project / "docs/migrate").glob("*.md"))]


def units(text):
    """[(line, text, is it below a heading "No counterpart"?)]"""
    text = re.sub(r"^```.*?^```$", lambda code: "\n" * code[0].count("\n"), text, flags=re.M | re.S)
    without, line = False, 1
    for block in re.split(r"(?<=\n)(?=\n|[|#]|- )", text):
        start = line + len(block) - len(block.lstrip("\n"))
        line += block.count("\n")
        words = " ".join(block.split())
        if words.startswith("#"):
            without = "o counterpart" in words
        elif words.startswith("|"):
            yield start, words, without
        else:
            yield from ((start, sentence, without) for sentence in re.split(r"(?<=[.!?]) ", words) if sentence)


def is_missing(feature, unit, without):
    """Returns true if this unit calls the feature missing."""
    cells = [cell.strip() for cell in unit.strip("|").split("|")] if unit.startswith("|") else [unit]
    if re.search(feature, cells[0]) and (without or cells[1:2] == ["–"]):
        return True
    return bool(re.search(feature, unit) and re.search(ABSENT, unit) or re.search(BEFORE + f"(?:{feature})", unit))


def findings(text, name="planted"):
    return [f"{name}:{line}: {feature} exists: {unit[:90]}" for line, unit, without in units(text)
            for feature, pattern, *_ in FEATURES if is_missing(pattern, unit, without)]


def exists(project, file, proof):
    path = project / file
    paths = [path] if path.is_file() else sorted(path.rglob("*.[chp]*"))
    return any(proof in each.read_text(encoding="utf-8", errors="replace") for each in paths if each.suffix != ".pyc")


GOOD = """# A page
RDMA where both ends have a device. CUDA memory has not been tried on hardware.

| Gloo | here |
|---|---|
| `USE_IBVERBS` | `-Dibverbs=` |
| `getPair` | – |

## No counterpart

- Buffers with gaps: copy.
"""


def main(project):
    found = [line for page in pages(project)
             for line in findings(page.read_text(encoding="utf-8"), page.relative_to(project))]
    stale = [f"{name}: {proof} is not in {file}" for name, _, file, proof, _ in FEATURES if not exists(project, file, proof)]
    silent = [f"not found: {wrong}" for name, *_, wrong in FEATURES
              if not any(f"{name} exists" in line for line in findings(wrong))]
    checks = [("no page calls a feature missing that exists", not found),
              ("every proof is in the tree", not stale),
              ("each planted sentence is found", not silent),
              ("a feature below \"No counterpart\" is found", len(findings(GOOD + "- TLS: use a tunnel.\n")) == 1),
              ("a good page is good", not findings(GOOD))]
    tap.report(checks, [*found, *stale, *silent])


main(Path(sys.argv[1]))
