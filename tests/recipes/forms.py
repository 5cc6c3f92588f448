"""Files that other programs read: their own checkers accept them, and refuse a planted fault.

usage: forms.py FOLDER, which keeps downloads for later runs"""

import re
import sys
import tempfile
from pathlib import Path

import common
from common import PROJECT, run, told

folder = Path(sys.argv[1]).resolve()
common.tools(folder / "tools")
import editorconfig  # noqa: E402  # the tools have these
import kubernetes_validate  # noqa: E402
import yaml  # noqa: E402

TOOLS = folder / "tools/bin"
FORMS = {"vendor.github-workflows": ["examples/ci/github.yml"], "vendor.gitlab-ci": ["examples/ci/gitlab.yml"],
         "vendor.github-issue-forms": [".github/ISSUE_TEMPLATE/fault.yml", ".github/ISSUE_TEMPLATE/proposal.yml"],
         "vendor.github-issue-config": [".github/ISSUE_TEMPLATE/config.yml"]}
DOCKERFILES = ["examples/docker/Dockerfile", "tests/fuzz/oss-fuzz/Dockerfile"]
VERSIONS = ("1.30", "1.34")  # of Kubernetes
# Fields of JobSet v1alpha2, whose schema no package has.
JOBSET = {"spec": {"network", "failurePolicy", "replicatedJobs", "successPolicy", "startupPolicy", "suspend",
                   "coordinator", "managedBy", "ttlSecondsAfterFinished"},
          "network": {"enableDNSHostnames", "publishNotReadyAddresses", "subdomain"},
          "failurePolicy": {"maxRestarts", "restartStrategy", "rules"},
          "replicatedJobs": {"name", "replicas", "template", "groupName", "dependsOn"}}


def schemas(work):
    for schema, names in FORMS.items():
        for name in names:
            status, said = run(TOOLS / "check-jsonschema", "--builtin-schema", schema, PROJECT / name)
            told(status == 0, f"{name} is valid", said)
            wrong = work / Path(name).name
            wrong.write_text((PROJECT / name).read_text(encoding="utf-8") + "\n7: {nothing: here}\n", encoding="utf-8")
            told(run(TOOLS / "check-jsonschema", "--builtin-schema", schema, wrong)[0] != 0, f"{name}: a fault is found")


def dockerfiles(work):
    for name in DOCKERFILES:
        status, said = run(TOOLS / "hadolint", PROJECT / name)
        told(status == 0, f"{name}: hadolint has nothing to say", said)
    wrong = work / "Dockerfile"
    wrong.write_text("FROM debian\nRUN cd /tmp\n", encoding="utf-8")
    told(run(TOOLS / "hadolint", wrong)[0] != 0, "hadolint finds a fault")


# ---- Kubernetes ----------------------------------------------------------------------------------

def unknown_fields(jobset):
    """Yields fields of a JobSet that it does not have."""
    spec = jobset["spec"]
    for name, value in ("spec", spec), ("network", spec.get("network", {})), ("failurePolicy", spec.get("failurePolicy", {})):
        yield from (f"{name}.{field}" for field in sorted(set(value) - JOBSET[name]))
    for job in spec["replicatedJobs"]:
        yield from (f"replicatedJobs.{field}" for field in sorted(set(job) - JOBSET["replicatedJobs"]))


def refused(thing):
    """Returns the reasons why an API server would refuse an object."""
    things, found = [thing], []
    if thing["kind"] == "JobSet":
        found = [*unknown_fields(thing)]
        things = [{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job["name"]}, **job["template"]}
                  for job in thing["spec"]["replicatedJobs"]]
    for one in things:
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(one, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                found.append(f"{version}: {error}")
    return found


def manifests(_work):
    for name in ("job.yaml", "jobset.yaml"):
        things = [*yaml.safe_load_all((PROJECT / "examples/kubernetes" / name).read_text(encoding="utf-8"))]
        told([reason for thing in things for reason in refused(thing)] == [], f"{name} is valid",
             [refused(thing) for thing in things])
        last = things[-1]
        spec = last["spec"]["replicatedJobs"][0]["template"]["spec"] if last["kind"] == "JobSet" else last["spec"]
        spec["template"]["spec"]["containers"][0]["enviroment"] = []
        told(refused(last) != [], f"{name}: a misspelt field of a container is found")
    last["spec"]["network"]["subdomian"] = "x"
    told("network.subdomian" in refused(last), "a misspelt field of a JobSet is found")


# ---- files of editors, reviewers and git ---------------------------------------------------------

def broken_rules(path, name):
    """Yields the rules of .editorconfig that a text file breaks."""
    rules = editorconfig.get_properties(str(PROJECT / name))
    data = path.read_bytes()
    if rules.get("insert_final_newline") == "true" and data and not data.endswith(b"\n"):
        yield "insert_final_newline"
    if rules.get("trim_trailing_whitespace") == "true" and re.search(rb"[ \t]\r?$", data, re.M):
        yield "trim_trailing_whitespace"
    if rules.get("end_of_line") == "lf" and b"\r\n" in data:
        yield "end_of_line"
    if rules.get("indent_style") == "space" and re.search(rb"^\t", data, re.M):
        yield "indent_style"
    if rules.get("indent_style") == "tab" and re.search(rb"^ +\S", data, re.M):
        yield "indent_style"


def editors(work):
    found = [f"{name}: {rule}" for name in common.tracked() for rule in broken_rules(PROJECT / name, name)]
    told(found == [], ".editorconfig says what the files are", "\n".join(found))
    wrong = work / "wrong.c"
    wrong.write_text("int a; \n\tint b;", encoding="utf-8")
    told([*broken_rules(wrong, "src/core/error.c")]
         == ["insert_final_newline", "trim_trailing_whitespace", "indent_style"], "each fault is found")


def owners(_work):
    """The paths of CODEOWNERS exist, also in its comments."""
    text = (PROJECT / ".github/CODEOWNERS").read_text(encoding="utf-8")
    paths = re.findall(r"(?<=[ #])/([\w./-]+)/(?=\s)", text)
    told(len(paths) > 10 and all((PROJECT / path).is_dir() for path in paths), "the paths of CODEOWNERS exist", paths)


def hooks(work):
    """The hooks of pre-commit, in a copy of the project."""
    copy = work / "copy"
    common.check_out(copy)
    git = ["git", "-C", copy, "-c", "user.name=x", "-c", "user.email=x@localhost"]
    run(*git, "init", "-q")
    run(*git, "add", "-A")
    run(*git, "commit", "-qm", "all: begin")

    def hook(*words):
        return run(TOOLS / "pre-commit", "run", *words, cwd=copy, seconds=600)

    for name in ("format", "voice", "links"):
        status, said = hook(name, "--all-files")
        told(status == 0 and "Passed" in said, f"the hook {name} passes", said)
    (copy / "src/core/error.c").write_text("int   a ;\n", encoding="utf-8")
    (copy / "README.md").write_text("[a](nowhere.md)\n", encoding="utf-8")
    for name in ("format", "links"):
        status, said = hook(name, "--all-files")
        told(status == 1 and "Failed" in said, f"the hook {name} finds a fault", said)
    message = work / "message"
    for subject, wanted in ("core: add a check", 0), ("core: add a check; and more", 1), ("core: " + 80 * "x", 1):
        message.write_text(subject + "\n\nWhy: because;\n# a comment\n", encoding="utf-8")
        status, said = hook("subject", "--hook-stage", "commit-msg", "--commit-msg-filename", message)
        told(status == wanted, f"the hook subject: {subject[:40]}", said)
    functions = (PROJECT / ".ci/lib.sh").read_text(encoding="utf-8")
    config = yaml.safe_load((PROJECT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    named = [re.search(r"check_\w+", one["entry"])[0] for one in config["repos"][0]["hooks"]]
    told(all(f"\n{name}() " in functions for name in named), "hooks call checks of .ci/lib.sh", named)


def fuzz_project(_work):
    project = yaml.safe_load((PROJECT / "tests/fuzz/oss-fuzz/project.yaml").read_text(encoding="utf-8"))
    told(set(project) == {"language", "fuzzing_engines", "sanitizers", "architectures"} and project["language"] == "c"
         and set(project["sanitizers"]) <= {"address", "undefined", "memory"}
         and set(project["fuzzing_engines"]) <= {"libfuzzer", "afl", "honggfuzz", "centipede"},
         "project.yaml has the fields and values of OSS-Fuzz", project)


with tempfile.TemporaryDirectory() as scratch:
    for check in (schemas, dockerfiles, manifests, editors, owners, hooks, fuzz_project):
        check(Path(scratch))
common.end()
