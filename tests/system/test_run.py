"""The run itself: exit status, signals, paths that LD_PRELOAD cannot hold, what is left behind."""

import os
import pathlib
import pty
import signal
import subprocess

from support import WHERE, CommandTest, environment, ranks_of

# A launcher that notes the signals it gets and ends with 7 after the first, a little later.
NOTING = """\
    import os, signal, sys, time
    count = 0
    def note(number, frame):
        global count
        count += 1
        os.write(1, f"got {number:d}\\n".encode())  # print is not reentrant
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, note)
    os.write(1, f"ready {os.getpid()}\\n".encode())
    while count == 0:
        time.sleep(0.01)
    time.sleep(0.3)
    sys.exit(7)
"""


class ExitStatus(CommandTest):
    def test_is_the_commands(self):
        launcher = self.hydra()
        for status in (0, 1, 42, 255):
            done = self.run_stridio("run", "--", launcher, "-n", "1", "sh", "-c", f"exit {status}")
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertEqual(done.stderr, "")

    def test_of_a_signal(self):
        done = self.run_stridio("run", "--", self.hydra(), "sh", "-c", "kill -SEGV $$")
        self.assertEqual(done.returncode, 128 + signal.SIGSEGV)

    def test_of_what_cannot_run(self):
        launcher = self.hydra()
        launcher.write_text("#!/no/such/interpreter\n")
        done = self.run_stridio("run", "--", launcher, "true")
        self.assertEqual(done.returncode, 126)
        self.assertIn("cannot run", done.stderr)

    def test_of_bad_usage(self):
        for arguments in (["run", "--no-such-option"], ["fly"], ["run", "--mpi", "lam", "--", "x"], []):
            self.assertEqual(self.run_stridio(*arguments).returncode, 125)

    def test_what_is_wrong_with_bad_usage_is_said(self):
        for words, said in ((["flaten", "a", "b"], "flaten is no command; there are run, "),
                            (["show", "picture"], "picture is no command; there are view"),
                            (["run", "--report", "-", "mpiexec", "-n", "2", "./app"],
                             "write the program after --: stridio run --report - -- mpiexec -n 2 ./app"),
                            (["wait", "f", "--timeout", "soon"], "soon is not a number of seconds, 0 or more"),
                            (["wait", "f", "--generation", "0"], "0 is not a whole number, 1 or more"),
                            (["flatten", "a", "b", "--threads", "100000"], "not a whole number from 0 to "),
                            (["flatten", "a", "b", "--timeout", "1"], "--follow")):
            with self.subTest(words=words):
                done = self.run_stridio(*words)
                self.assertEqual(done.returncode, 125)
                self.assertIn(said, done.stderr)

    def test_of_help_and_version(self):
        for arguments in (["--help"], ["run", "--help"], ["doctor", "--help"]):
            done = self.run_stridio(*arguments)
            self.assertEqual(done.returncode, 0)
            self.assertIn("Example", done.stdout)
        self.assertRegex(self.run_stridio("--version").stdout, r"^stridio \d+\.\d+\.\d+\n$")


class Streams(CommandTest):
    def test_input_and_output_pass(self):
        done = subprocess.run([self.stridio, "run", "--", self.hydra(), "cat"], input="through\n",
                              capture_output=True, text=True, env=environment())
        self.assertEqual((done.stdout, done.stderr), ("through\n", ""))


class Signals(CommandTest):
    def start(self):
        self.file("mpi/lib/libmpi.so.12")
        launcher = self.script("mpi/bin/mpiexec.hydra", NOTING)
        process = subprocess.Popen([self.stridio, "run", "--", launcher], stdout=subprocess.PIPE,
                                   text=True, env=environment())
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.assertEqual(process.stdout.readline().split()[0], "ready")
        return process

    def test_are_sent_on(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            with self.subTest(number=number):
                process = self.start()
                process.send_signal(number)
                self.assertEqual(process.wait(10), 7)
                self.assertEqual(process.stdout.read(), f"got {number.value}\n")

    def test_launcher_ends_with_a_killed_command(self):
        process = self.start()
        process.kill()
        process.wait(10)
        self.assertEqual(process.stdout.readline(), f"got {signal.SIGTERM.value}\n")

    def test_a_terminals_interrupt_arrives_once(self):
        self.file("mpi/lib/libmpi.so.12")
        launcher = self.script("mpi/bin/mpiexec.hydra", NOTING)
        child, terminal = pty.fork()
        if child == 0:
            os.execve(self.stridio, ["stridio", "run", "--", str(launcher)], environment())
        output = b""
        while b"ready" not in output:
            output += os.read(terminal, 1024)
        os.write(terminal, b"\x03")
        _, status = os.waitpid(child, 0)
        while True:
            try:
                output += os.read(terminal, 1024) or b""
            except OSError:  # the terminal's other side is closed
                break
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(status), 7)
        self.assertEqual(output.count(b"got 2"), 1, output)


class Preload(CommandTest):
    def rank(self, *arguments, stridio=None, **changes):
        done = self.run_stridio(*arguments, stridio=stridio, **changes)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return ranks_of(done.stdout)[0]

    def test_is_in_the_rank_and_in_nothing_above(self):
        rank = self.rank("run", "--", self.hydra(), WHERE)
        self.assertEqual([process["preloaded"] for process in rank["processes"]][:2], [True, False])
        self.assertNotIn(True, [process["preloaded"] for process in rank["processes"]][1:])

    def test_paths_with_separators_go_through_links(self):
        stridio = self.install(self.folder / "my stridio: new")
        launcher = self.hydra("my mpi")
        temporary = self.folder / "tmp"
        temporary.mkdir()
        rank = self.rank("run", "--", launcher, WHERE, stridio=stridio, TMPDIR=str(temporary))
        self.assertTrue(rank["processes"][0]["preloaded"])
        entries = rank["LD_PRELOAD"].split(":")
        self.assertEqual([pathlib.Path(entry).name for entry in entries],
                         ["libstridio-mpich.so", "libmpi.so.12"])
        self.assertTrue(all(entry.startswith(f"{temporary}/stridio-") for entry in entries))
        self.assertEqual(list(temporary.iterdir()), [])

    def test_unusable_folder_for_the_links(self):
        rank = self.rank("run", "--", self.hydra("my mpi"), WHERE, TMPDIR=str(self.folder / "a b"))
        self.assertRegex(rank["LD_PRELOAD"], ":/tmp/stridio-[^/]*/0/libmpi.so.12$")
