"""Each function of MPI-IO that the host's Fortran library has for an interface is called by the program.

  functions_test.py LIBRARY PROGRAM SUFFIX
"""
import re
import subprocess
import sys


def names(which, file, pattern):
    output = subprocess.run(["nm", "-D", f"--{which}-only", file], check=True, capture_output=True, text=True).stdout
    return {found[1] for found in re.finditer(pattern, output, re.MULTILINE)}


def main():
    library, program, suffix = sys.argv[1:]
    pattern = rf" (mpi_(?:file|register_datarep)\w*?){suffix}(?:@\S*)?$"
    there = {name for name in names("defined", library, pattern) if suffix != "_" or not re.search("_$|_f08", name)}
    missing = sorted(there - names("undefined", program, pattern))
    for name in missing:
        print(f"{name} of {library} is not called by {program}")
    if len(there) < 55:
        print(f"{library} has only {len(there)} functions with {suffix}: is it the MPI's?")
    return 1 if missing or len(there) < 55 else 0


if __name__ == "__main__":
    sys.exit(main())
