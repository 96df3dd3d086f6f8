"""Fetches and builds the test suites of HDF5 and PnetCDF from Debian's source packages, once for each MPI.

All is kept in build/conformance, by the versions of package and MPI. The packages are those of the installed
libraries; apt verifies them as it verifies what it installs, in folders of its own: /etc/apt is only read."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from launch import ROOT, BenchError, environment, output_of

STORE = ROOT / "build/conformance"
JOBS = f"-j{len(os.sched_getaffinity(0))}"
PNETCDF_FOLDERS = ("C", "cdf_format", "header", "testcases", "nonblocking", "CXX", "F90")  # of parallel tests
BY_SOURCE = {"hdf5": "libhdf5-mpich-dev", "pnetcdf": "libpnetcdf-dev"}  # an installed package of it


def version_of(package):
    return output_of(["dpkg-query", "-W", "-f", "${source:Version}", BY_SOURCE[package]])


def source_of(package, say):
    """The unpacked sources."""
    version = version_of(package)
    source = STORE / f"{package}-{version}/source"
    if source.exists():
        return source
    say(f"fetching the source of {package} {version}")
    source.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="apt-", dir=STORE) as folder:
        fetch(Path(folder), f"{package}={version}")
        (unpacked,) = (entry for entry in Path(folder).glob(f"{package}-*") if entry.is_dir())
        if not (unpacked / "configure").exists():
            call(["autoreconf", "-i"], unpacked, source.parent / "autoreconf.log")
        unpacked.rename(source)
    return source


def fetch(folder, package):
    folder.chmod(0o755)  # apt fetches as a user of its own
    lists = folder / "sources.list"
    binary = ["Created-By: Packages", "Origin: Debian"]
    line = "deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)"
    lists.write_text(output_of(["apt-get", "indextargets", "--format", line, *binary]))
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    settings = {
        "Dir::Etc::sourcelist": lists,
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Acquire::Retries": 3,
    }
    apt = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in settings.items())]
    log = STORE / "apt.log"
    call([*apt, "update"], folder, log)
    call([*apt, "--only-source", "source", package], folder, log)


def build(package, mpi, say):
    """The folder in which the package is built for an MPI. A build that was cut off begins anew."""
    source = source_of(package, say)
    folder = source.parent / f"{mpi.name}-{mpi.label().rpartition(' ')[2]}"
    steps = STEPS[package](source, mpi)
    stamp = folder / "built"
    recipe = "\n".join(" ".join(map(str, step)) for step in steps)
    if stamp.exists() and stamp.read_text() == recipe:
        return folder
    say(f"building {package} for {mpi.label()}, some minutes (progress in {folder}/build.log)")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for step in steps:
        call(step, folder, folder / "build.log")
    stamp.write_text(recipe)
    return folder


def hdf5_steps(source, mpi):
    without = ("shared", "fortran", "cxx", "hl", "tools")
    return [
        [source / "configure", "--enable-parallel", "--enable-build-mode=production"]
        + [*(f"--disable-{part}" for part in without), f"CC={mpi.compiler}", "CFLAGS=-O1"],
        ["make", JOBS, "-C", "src"],
        ["make", JOBS, "-C", "test", "libh5test.la"],
        ["make", JOBS, "-C", "testpar", "check_SCRIPTS=", *hdf5_programs(source)],
    ]


def hdf5_programs(source):
    """As testpar's Makefile lists them."""
    text = (source / "testpar/Makefile.am").read_text()
    (programs,) = re.findall(r"^TEST_PROG_PARA\s*=(.*)", text, re.MULTILINE)
    return [*programs.split(), "t_pflush1", "t_pflush2"]


def pnetcdf_steps(source, mpi):
    tool = str(mpi.compiler).replace
    languages = {"MPICC": "mpicc", "MPICXX": "mpicxx", "MPIF77": "mpif77", "MPIF90": "mpif90"}
    compilers = [f"{name}={tool('mpicc', program)}" for name, program in languages.items()]
    flags = [f"{name}=-O1" for name in ("CFLAGS", "CXXFLAGS", "FFLAGS", "FCFLAGS")]
    return [
        [source / "configure", "--disable-shared", *compilers, *flags],
        ["make", JOBS],
        *(["make", JOBS, "-C", f"test/{folder}", "tests"] for folder in ("common", *PNETCDF_FOLDERS)),
    ]


STEPS = {"hdf5": hdf5_steps, "pnetcdf": pnetcdf_steps}


def call(command, folder, log):
    with log.open("a") as output:
        words = [str(word) for word in command]
        done = subprocess.run(
            words, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment()
        )
    if done.returncode != 0:
        raise BenchError(f"{' '.join(words)} failed: {log}")
