"""Whose launcher it is, which libraries its ranks get, and how its command line changes."""

from support import FAKES, HYDRA, INTEL, OPEN_MPI, CommandTest


class Detection(CommandTest):
    TABLE = [
        # launcher, its answer to --version (None: must not be asked), its library, the family
        ("mpiexec", HYDRA, "lib/libmpi.so.12", "mpich"),
        ("mpirun", HYDRA, "lib64/libmpi.so.12", "mpich"),
        ("mpiexec", INTEL, "lib/release/libmpi.so.12", "mpich"),
        ("mpiexec.hydra", None, "lib/libmpich.so.12", "mpich"),
        ("mpirun.mpich", None, "lib/libmpi.so.12", "mpich"),
        ("mpiexec", OPEN_MPI, "lib/libmpi.so.40", "ompi"),
        ("mpirun", "mpirun (OpenRTE) 4.1.4\n", "lib/libmpi.so.40", "ompi"),
        ("mpiexec.openmpi", None, "lib/libmpi.so.40", "ompi"),
        ("orterun", None, "lib64/libmpi.so.40", "ompi"),
        ("prterun", None, "lib/libmpi.so.40", "ompi"),
    ]

    def expected(self, family, libmpi, launcher, rest):
        value = f"{self.library(family)}:{libmpi}"
        options = ["-x", f"LD_PRELOAD={value}"] if family == "ompi" else ["-genv", "LD_PRELOAD", value]
        return [str(launcher), str(launcher), *options, *rest]

    def test_table(self):
        for number, (name, version, library, family) in enumerate(self.TABLE):
            with self.subTest(name=name, version=version):
                launcher = self.launcher(f"{number}/bin/{name}", version)
                libmpi = self.file(f"{number}/{library}")
                self.assertEqual(self.dry_run(launcher, "-n", "2", "./app"),
                                 self.expected(family, libmpi, launcher, ["-n", "2", "./app"]))

    def test_links_are_resolved_as_debian_makes_them(self):
        self.launcher("usr/bin/orterun")
        libmpi = self.file("usr/lib/libmpi.so.40")
        alternative = self.folder / "etc/mpirun"
        alternative.parent.mkdir()
        alternative.symlink_to("../usr/bin/orterun")
        launcher = self.folder / "links/bin/mpirun"
        launcher.parent.mkdir(parents=True)
        launcher.symlink_to(alternative)
        self.assertEqual(self.dry_run(launcher, "./app"),
                         self.expected("ompi", libmpi, launcher, ["./app"]))

    def test_found_on_path(self):
        launcher = self.launcher("mpi/bin/mpiexec", HYDRA)
        libmpi = self.file("mpi/lib/libmpi.so.12")
        lines = self.dry_run("mpiexec", "./app", PATH=f"/nowhere:{launcher.parent}:/usr/bin:/bin")
        self.assertEqual(lines, [str(launcher), *self.expected("mpich", libmpi, "mpiexec", ["./app"])[1:]])

    def test_python_environment_without_launcher(self):
        python = self.script("env/bin/python", "pass")
        self.file("env/pyvenv.cfg")
        libmpi = self.file("env/lib/libmpi.so.40")
        self.assertEqual(self.dry_run(python, "x.py"),
                         [f"LD_PRELOAD={self.library('ompi')}:{libmpi}", str(python), str(python), "x.py"])


class Refusals(CommandTest):
    def test_unknown_mpiexec(self):
        launcher = self.launcher("bin/mpiexec", "mystery 1.0\n")
        text = self.refused(launcher, "./app")
        self.assertIn('says "mystery 1.0"', text)
        self.assertIn("--mpi mpich|ompi|abi --libmpi", text)
        self.assertIn(f"LD_PRELOAD={self.library('mpich')}:PATH/libmpi.so.12", text)

    def test_mpiexec_that_does_not_answer(self):
        launcher = self.script("bin/mpiexec", "import time; time.sleep(100)")
        self.assertIn("cannot tell whose launcher", self.refused(launcher, "./app"))

    def test_srun(self):
        text = self.refused(self.launcher("bin/srun"), "-n", "2", "./app")
        self.assertIn("bin/srun is not supported", text)
        self.assertIn("srun env LD_PRELOAD=", text)

    def test_script_without_mpi(self):
        self.assertIn("neither a launcher", self.refused(self.script("job.sh", "", "/bin/sh")))

    def test_launcher_without_library(self):
        self.assertIn("found no library of MPICH", self.refused(self.launcher("bin/mpiexec.hydra"), "a"))

    def test_library_of_stridio_not_built(self):
        self.file("mpi/lib/libmpi.so.12")
        launcher = self.launcher("mpi/bin/mpiexec.hydra")
        (self.folder / "stridio/lib/libstridio-mpich.so").unlink()
        self.assertIn("Stridio is not built for MPICH", self.refused(launcher, "a"))

    def test_no_such_command(self):
        self.assertIn("there is no command", self.refused("./nothing", status=127))

    def test_no_command(self):
        self.assertIn("stridio run -- mpiexec -n 4 ./app", self.refused())

    def test_own_preload_by_launcher_option(self):
        for options in (["-genv", "LD_PRELOAD", "x.so"], ["-env", "LD_PRELOAD", "x.so"]):
            self.assertIn("would replace", self.refused(self.launcher("bin/mpiexec.hydra"), *options, "a"))
        self.assertIn("would replace",
                      self.refused(self.launcher("bin/orterun"), "-x", "LD_PRELOAD=x.so", "a"))


class Choice(CommandTest):
    """The MPI that the user names, or that the program is linked against."""

    def setUp(self):
        super().setUp()
        self.mpiexec = self.launcher("mpi/bin/mpiexec.hydra")
        self.libmpi = self.file("mpi/lib/libmpi.so.12")

    def linked(self, family):
        return FAKES / f"fake-{family}/bin/system_linked_{family}"

    def library_of(self, family, name):
        return FAKES / f"fake-{family}/lib" / name

    def test_named_for_an_unknown_launcher(self):
        srun = self.launcher("bin/srun")
        lines = self.dry_run(srun, "./app", options=["--mpi", "mpich", "--libmpi", self.libmpi])
        self.assertEqual(lines, [f"LD_PRELOAD={self.library('mpich')}:{self.libmpi}", str(srun),
                                 str(srun), "./app"])

    def test_named_by_the_library_alone(self):
        abi = self.file("other/libmpi_abi.so.0")
        self.assertEqual(self.dry_run(self.mpiexec, "./app", options=["--libmpi", abi])[4],
                         f"{self.library('abi')}:{abi}")

    def test_abi_named_beside_a_launcher(self):
        abi = self.file("mpi/lib/libmpi_abi.so.1")
        self.assertEqual(self.dry_run(self.mpiexec, "python3", options=["--mpi", "abi"])[4],
                         f"{self.library('abi')}:{abi}")

    def test_library_that_is_none(self):
        self.assertIn("cannot tell by its name",
                      self.refused(self.mpiexec, "a", options=["--libmpi", "/lib/x.so"]))
        self.assertIn("there is no library",
                      self.refused(self.mpiexec, "a", options=["--libmpi", "/lib/libmpi.so.12"]))

    def test_program_of_the_standard_abi(self):
        value = f"{self.library('abi')}:{self.library_of('abi', 'libmpi_abi.so.1')}"
        for wrapped in ([], ["env", "A=1"]):
            with self.subTest(wrapped=wrapped):
                lines = self.dry_run(self.mpiexec, "-n", "2", *wrapped, self.linked("abi"))
                self.assertEqual(lines[2:5], ["-genv", "LD_PRELOAD", value])

    def test_program_without_launcher(self):
        program = str(self.linked("ompi"))
        value = f"{self.library('ompi')}:{self.library_of('ompi', 'libmpi.so.40')}"
        self.assertEqual(self.dry_run(program, "x"), [f"LD_PRELOAD={value}", program, program, "x"])

    def test_program_counts_more_than_the_launcher(self):
        done = self.run_stridio("run", "--dry-run", "--", self.mpiexec, self.linked("ompi"))
        self.assertIn(f"{self.library('ompi')}:{self.library_of('ompi', 'libmpi.so.40')}", done.stdout)
        self.assertIn("linked against Open MPI", done.stderr)
        self.assertIn("belongs to MPICH", done.stderr)


class Insertion(CommandTest):
    def setUp(self):
        super().setUp()
        self.mpich = self.launcher("mpich/bin/mpiexec.hydra")
        self.ompi = self.launcher("ompi/bin/orterun")
        self.values = {}
        for family, library in (("mpich", "libmpi.so.12"), ("ompi", "libmpi.so.40")):
            self.values[family] = f"{self.library(family)}:{self.file(f'{family}/lib/{library}')}"

    def test_each_part_of_open_mpi_gets_its_own(self):
        option = ["-x", f"LD_PRELOAD={self.values['ompi']}"]
        lines = self.dry_run(self.ompi, "-n", "1", "./a", ":", "-n", "2", "./b", ":x")
        self.assertEqual(lines[2:], [*option, "-n", "1", "./a", ":", *option, "-n", "2", "./b", ":x"])

    def test_all_parts_of_mpich_share_one(self):
        lines = self.dry_run(self.mpich, "./a", ":", "./b")
        self.assertEqual(lines[2:], ["-genv", "LD_PRELOAD", self.values["mpich"], "./a", ":", "./b"])

    def test_the_users_libraries_come_before(self):
        lines = self.dry_run(self.mpich, "./a", LD_PRELOAD="libm.so.6", STRIDIO_PRELOAD_EXTRA="/x.so:/y.so")
        self.assertEqual(lines[4], f"libm.so.6:{self.values['mpich']}:/x.so:/y.so")

    def test_programs_in_a_file_that_open_mpi_4_would_not_preload_into(self):
        old = self.launcher("old/bin/mpirun.openmpi", "mpirun (OpenRTE) 4.1.4\n")
        new = self.launcher("new/bin/mpirun.openmpi", OPEN_MPI)
        for prefix in ("old", "new"):
            self.file(f"{prefix}/lib/libmpi.so.40")
        self.assertIn("ignores variables set before --app", self.refused(old, "--app", "programs"))
        self.assertEqual(self.dry_run(new, "--app", "programs")[4:], ["--app", "programs"])

    def test_explain(self):
        lines = self.dry_run(self.ompi, "./a", options=["--explain"])
        self.assertEqual(lines[4:], ["-x", "STRIDIO_EXPLAIN=1", "./a"])

    def test_arguments_stay_as_they_are(self):
        arguments = ["a b", "", "$(id)", "*", "--report", "--", "ä"]
        self.assertEqual(self.dry_run(self.mpich, "./a", *arguments)[6:], arguments)
