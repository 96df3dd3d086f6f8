#!/usr/bin/python3
"""Mounts slow, network-like storage (bench/slowfs), runs a command on it, and unmounts.

{} in the command stands for the mount point. The data lies in memory, and is gone afterwards. At
the end what the storage counted is printed: requests, their bytes, the most at one time.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from launch import GRACE_SECONDS, ROOT, BenchError, end

PROGRAM = ROOT / "build/release/bin/slowfs"
START_SECONDS = 10


def why_not(program=PROGRAM):
    """What keeps this machine from mounting; empty if nothing does."""
    if not program.exists():
        return f"{program} is not built (it needs libfuse3-dev)"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse is not here, or not for this user"
    if os.geteuid() != 0:
        return "mounting needs root"
    return ""


class SlowStorage:
    """A mounted folder."""

    def __init__(self, folder):
        self.folder = folder
        self.counts_file = folder / ".slowfs-counts"

    def reset(self):
        self.counts_file.write_text("0")

    def counts(self):
        return json.loads(self.counts_file.read_text())


@contextlib.contextmanager
def mounted(program=PROGRAM, latency_ms=1, bandwidth_mb=1000):
    """Slow storage as a context. Leaves no mount behind, whatever happens to those who use it."""
    if why := why_not(program):
        raise BenchError(f"no slow storage: {why}")
    with (
        memory_folder() as data,
        tempfile.TemporaryDirectory(prefix="stridio-slowfs-") as point,
    ):
        command = [program, data, point]
        command += [f"--latency={latency_ms}", f"--bandwidth={bandwidth_mb}"]
        process = subprocess.Popen(command, start_new_session=True)  # outlives an interrupt
        try:
            wait_for_mount(process, point)
            yield SlowStorage(Path(point))
        finally:
            unmount(process, point)


@contextlib.contextmanager
def memory_folder():
    """A folder in memory, of huge pages where it may be: to take 4 KiB ones is half of the server's work."""
    with tempfile.TemporaryDirectory(prefix="stridio-slowfs-", dir="/dev/shm") as folder:
        huge = ["mount", "-t", "tmpfs", "-o", "huge=always", "stridio-slowfs", folder]
        is_huge = subprocess.run(huge, stderr=subprocess.DEVNULL).returncode == 0
        try:
            yield folder
        finally:
            if is_huge:
                subprocess.run(["umount", "--lazy", folder], timeout=START_SECONDS)


def wait_for_mount(process, point):
    deadline = time.monotonic() + START_SECONDS
    while not os.path.ismount(point):
        if process.poll() is not None:
            raise BenchError(f"slowfs ended with {process.returncode}: may this machine mount?")
        if time.monotonic() > deadline:
            raise BenchError("slowfs did not mount in time")
        time.sleep(0.01)


def unmount(process, point):
    process.terminate()
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    mounts = Path("/proc/mounts").read_text().splitlines()
    if any(line.split()[1] == point for line in mounts):  # it was killed
        subprocess.run(["umount", "--lazy", point], timeout=START_SECONDS)


def parse_arguments():
    description = __doc__.partition("\n\n")[0]
    parser = argparse.ArgumentParser(prog="bench/mount.py", description=description)
    add = parser.add_argument
    add("--latency", type=float, default=1, metavar="MS", help="of a request (1)")
    add("--bandwidth", type=float, default=1000, metavar="MB", help="a second, of all (1000)")
    add("--timeout", type=float, default=600, metavar="S", help="for the command (600)")
    add("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="{} is the mount point")
    arguments = parser.parse_args()
    arguments.command = arguments.command[arguments.command[:1] == ["--"] :]
    if not arguments.command:
        parser.error("no command")
    return arguments


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("mount: terminated"))
    arguments = parse_arguments()
    with mounted(latency_ms=arguments.latency, bandwidth_mb=arguments.bandwidth) as storage:
        command = [word.replace("{}", str(storage.folder)) for word in arguments.command]
        process = subprocess.Popen(command, start_new_session=True)
        try:
            status = process.wait(arguments.timeout)
        except subprocess.TimeoutExpired:
            raise BenchError(f"no end after {arguments.timeout:g} s") from None
        finally:
            if process.poll() is None:
                end(process)
        print(json.dumps(storage.counts()))
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as error:
        sys.exit(f"mount: {error}")
    except KeyboardInterrupt:
        sys.exit("mount: interrupted")
