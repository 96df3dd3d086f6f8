"""The report: records of ranks in, one document and one table out."""

import json
import os
import pathlib

from support import CommandTest

RECORDS = pathlib.Path(__file__).parent / "records"


class Report(CommandTest):
    def report(self, *records, ranks="true", options=("--report", "report.json"), status=0, **changes):
        """Runs a command that leaves these records; gives the document and what was printed."""
        copy = "".join(f"cp '{RECORDS / name}' $STRIDIO_REPORT_DIR; " for name in records)
        done = self.run_stridio("run", *options, "--", self.hydra(), "sh", "-c", f"{copy} {ranks}", **changes)
        self.assertEqual(done.returncode, status, done.stderr)
        path = self.folder / "report.json"
        self.assertEqual(sorted(p.name for p in self.folder.iterdir() if "report" in p.name),
                         ["report.json"] if path.exists() else [])
        return (json.loads(path.read_text()) if path.exists() else None), done.stderr

    def test_nothing_without_the_option(self):
        document, text = self.report(options=(), ranks='test -z "$STRIDIO_REPORT_DIR"')
        self.assertEqual((document, text), (None, ""))

    def test_merges_ranks_and_opens(self):
        document, text = self.report("checkpoint-0.json", "checkpoint-1.json", "checkpoint-1-again.json")
        self.assertEqual((document["version"], document["mpi"], document["exit_status"], document["records"]),
                         (1, "mpich", 0, 3))
        (file,) = document["files"]
        self.assertEqual((file["file"], file["ranks"], file["ranks_reporting"], file["opens"]),
                         ("/data/checkpoint.h5", 2, 2, 2))
        self.assertEqual(file["calls"], {"read": 0, "read_all": 1, "write": 2, "write_all": 48})
        self.assertEqual(file["bytes"], {"read": 1000, "written": 8000400})
        self.assertEqual(file["storage"],
                         {"locks": 3, "read_bytes": 1000, "read_requests": 1, "syncs": 2,
                          "write_bytes": 8000400, "write_requests": 10,
                          "mean_read_request": 1000.0, "mean_write_request": 800040.0})
        self.assertEqual(file["seconds"]["waiting"], {"sum": 2.5, "max": 2.0, "max_rank": 1})
        self.assertEqual(file["seconds"]["total"], {"sum": 4.0, "max": 3.0, "max_rank": 1})
        self.assertAlmostEqual(file["seconds"]["other"]["sum"], 0.5)
        self.assertEqual([(m["method"], m["calls"], m["bytes"], m["why"]) for m in file["methods"]],
                         [("two_phase", 48, 8000000, "the ranks' pieces interleave"),
                          ("direct", 1, 1000, "one run"), ("list", 2, 400, "holes, no lock")])
        self.assertIn("/data/checkpoint.h5: 62 % of its MPI-IO time (2.50 s of 4.00 s over 2 ranks) went "
                      "to waiting for other ranks: rank 1 waited longest, 2.00 s\n", text)
        self.assertIn("two_phase for collective writes: 48 calls, 8.0 MB\n              the ranks' pieces interleave\n", text)
        self.assertRegex(text, r"waiting +2\.500 +2\.000 +62 %  \(longest on rank 1\)")

    def test_holds_the_views_of_the_ranks(self):
        document, _ = self.report("checkpoint-0.json", "checkpoint-1.json", "checkpoint-1-again.json")
        self.assertEqual(document["files"][0]["views"],
                         [{"rank": 0, "displacement": 512, "extent": 64, "pattern": "5001000104200008b9761f08"}])

    def test_names_small_requests(self):
        document, text = self.report("small.json")
        self.assertIn("small.dat: 90 % of its MPI-IO time (900.0 ms of 1.00 s over 1 rank) went to the storage, "
                      "in small requests: 5000 writes of 512 B on average\n", text)
        self.assertIn("went to the storage, in small requests", document["files"][0]["dominant_cost"])

    def test_longest_file_first(self):
        document, _ = self.report("small.json", "checkpoint-0.json", "checkpoint-1.json")
        self.assertEqual([file["file"] for file in document["files"]], ["/data/checkpoint.h5", "small.dat"])

    def test_missing_ranks_are_told(self):
        document, text = self.report("checkpoint-0.json")
        self.assertEqual(document["files"][0]["ranks_reporting"], 1)
        self.assertIn("only 1 of its 2 ranks left a record", text)

    def test_bad_records_do_not_hide_good_ones(self):
        document, text = self.report("small.json", "truncated.json", "future.json")
        self.assertEqual((document["records"], len(document["unreadable_records"]), len(document["files"])),
                         (1, 2, 1))
        self.assertIn("future.json: its version is 2, not 1", document["unreadable_records"])
        self.assertIn("2 records could not be read", text)

    def test_no_record_at_all(self):
        document, text = self.report()
        self.assertEqual(document["files"], [])
        self.assertIn("no rank reported any MPI-IO", text)
        self.assertIn("clears LD_PRELOAD", text)

    def test_long_reasons_are_wrapped(self):
        _, text = self.report("small.json")
        self.assertLessEqual(max(len(line) for line in text.splitlines()[3:]), 100)
        self.assertIn("small pieces", " ".join(text.split()))

    def test_of_many_files_the_table_shows_the_longest(self):
        many = ("for i in $(seq 20); do sed s/small.dat/$i.dat/ '%s' > $STRIDIO_REPORT_DIR/$i.json; done"
                % (RECORDS / "small.json"))
        document, text = self.report(ranks=many)
        self.assertEqual(len(document["files"]), 20)
        self.assertIn("8 more files with less time", text)

    def test_parts_that_exceed_the_total_raise_it(self):
        over = ("sed s/0.9/3.0/ '%s' > $STRIDIO_REPORT_DIR/over.json" % (RECORDS / "small.json"))
        document, text = self.report(ranks=over)
        self.assertEqual(document["files"][0]["seconds"]["total"]["sum"], 3.0)
        self.assertIn("small.dat: 100 % of", text)

    def test_table_only(self):
        document, text = self.report("small.json", options=("--report", "-"))
        self.assertIsNone(document)
        self.assertIn("small.dat", text)

    def test_of_a_run_that_a_signal_ended(self):
        process = self.start_stridio("run", "--report", "-", "--", self.hydra(), "sh", "-c", "echo ready; exec sleep 60")
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.terminate()
        self.assertIn("signal 15 (Terminated) ended the command before", process.communicate(timeout=30)[1])

    def test_that_cannot_be_written_fails(self):
        done = self.run_stridio("run", "--report", "/dev/full", "--", self.hydra(), "true")
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("No space left on device", done.stderr)

    def test_of_a_failed_run(self):
        document, text = self.report("small.json", ranks="exit 3", status=3)
        self.assertEqual(document["exit_status"], 3)
        self.assertIn("small.dat", text)

    def test_place_that_cannot_be_written_is_told_before_the_run(self):
        done = self.run_stridio("run", "--report", "nowhere/report.json", "--", self.hydra(), "echo", "ran")
        self.assertEqual((done.returncode, done.stdout), (125, ""))
        self.assertIn("nowhere/report.json", done.stderr)
