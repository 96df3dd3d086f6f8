"""The symbols of a built libstridio-X.so against those of the MPIs that it serves.

  exports_test.py LIBSTRIDIO LIBABORT LIBMPI...
"""
import os
import re
import subprocess
import sys

FILE_FUNCTION = re.compile(r"P?MPIX?_(File_|Register_datarep)")
OURS = re.compile(r"P?MPIX?_")
FORTRAN = re.compile(r"(?i)p?mpir?_(file_create_errhandler|register_datarep|conversion_fn_null)(_f08)?_{0,2}$"
                     r"|__mpi_f08_callbacks_MOD_mpi_conversion_fn_null$")
HOST = re.compile(r"P?MPIX?_|ompi_|MPIR_|ADIO")
ALLOWED_NEEDED = re.compile(r"lib(c|m|dl|rt|pthread)\.so|ld-linux")


def symbols(library, which):
    output = subprocess.run(["nm", "-D", f"--{which}-only", library], check=True, capture_output=True, text=True)
    rows = [line.split()[-2:] for line in output.stdout.splitlines()]
    return {name.split("@")[0]: kind for kind, name in rows}


def needed(library):
    output = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True)
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output.stdout)


def problems(library, aborting, hosts):
    ours, stopped = symbols(library, "defined"), symbols(aborting, "defined")
    for host in hosts:
        functions = {name for name in symbols(host, "defined") if FILE_FUNCTION.match(name)}
        if len(functions) < 100:
            yield f"{host} defines only {len(functions)} functions of MPI-IO: is it an MPI?"
        for name in sorted(functions - ours.keys()):
            yield f"{name} of {host} is missing"
        for name in sorted(functions - stopped.keys()):
            yield f"{name} of {host} is missing in abort_host_io.c"
    for name in sorted(ours):
        if not OURS.match(name) and not FORTRAN.match(name):
            yield f"{name} is exported, and is not MPI's"
    for name, kind in sorted(ours.items()):
        expected = "T" if name[0] in "Pp" else "W"
        if kind != expected:
            yield f"{name} is of kind {kind}, not {expected}"
    for name, kind in sorted(symbols(library, "undefined").items()):
        if HOST.match(name) and kind not in "wv":
            yield f"{name} is a strong reference: the library would not load without MPI"
        if name.startswith("MPI_"):
            yield f"{name} is called: tools that wrap MPI would see it; use P{name}"
    for name in needed(library):
        if not ALLOWED_NEEDED.match(name):
            yield f"the library needs {name}"
    yield from loading_problems(library)


def loading_problems(library):
    for command in (["/bin/true"], [sys.executable, "-c", "pass"], ["/bin/sh", "-c", "exec /bin/true"]):
        for now in ({}, {"LD_BIND_NOW": "1"}):
            environment = {**os.environ, "LD_PRELOAD": library, **now}
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            if done.returncode != 0 or done.stdout or done.stderr:
                yield f"{command[0]} {now} with the library, without MPI: {done.returncode} {done.stderr}"


def main():
    found = list(problems(sys.argv[1], sys.argv[2], sys.argv[3:]))
    print("\n".join(found) or f"{sys.argv[1]}: as it should be for {', '.join(sys.argv[3:])}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
