"""Runs mpi4py's own tests of files, on every rank, after making sure that Stridio serves them.

  run.py FOLDER-OF-MPI4PY'S-TESTS
"""
import os
import runpy
import sys

from mpi4py import MPI


def is_served_by_stridio():
    try:
        MPI.File.Open(MPI.COMM_SELF, os.path.join(os.path.sep, "no", "such", "file"), MPI.MODE_RDONLY)
    except MPI.Exception as error:
        # Stridio's texts start with the function; those of the hosts do not.
        return error.Get_error_class() == MPI.ERR_NO_SUCH_FILE and error.Get_error_string().startswith("MPI_File_open: ")
    return False


def main():
    if not is_served_by_stridio():
        sys.exit("mpi4py's files are not served by Stridio")
    folder = sys.argv[1]
    sys.path.insert(0, folder)
    os.chdir(folder)
    sys.dont_write_bytecode = True
    sys.argv = ["main.py", "-i", "test_io", "-i", "test_file"]
    runpy.run_path("main.py", run_name="__main__")


if __name__ == "__main__":
    main()
