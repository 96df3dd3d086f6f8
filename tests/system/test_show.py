"""`stridio show view`: the views of ranks as a table and as a picture."""

import json
import subprocess
import xml.etree.ElementTree as ElementTree

from support import CommandTest

SVG = "{http://www.w3.org/2000/svg}"


class ShowView(CommandTest):
    def show(self, document, *options, status=0):
        source = self.folder / "views.json"
        source.write_text(document if isinstance(document, str) else json.dumps(document))
        done = self.run_stridio("show", "view", str(source), *options)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def test_the_papers_figure(self):
        views = [{"regions": [[0, 25], [50, 25]]}, {"regions": [[15, 25], [65, 25]]}, {"regions": [[40, 10], [90, 35]]}]
        picture = self.folder / "figure.svg"
        text = self.show({"end": 125, "views": views}, "--output", str(picture))
        self.assertIn("8 intervals in 125 bytes; 105 bytes private; 20 bytes shared by 2\n", text)
        self.assertIn("          15 - 24           shared by ranks 0-1\n", text)
        self.assertIn("          90 - 124          private to rank 2\n", text)
        drawn = ElementTree.parse(picture).getroot()
        titles = [title.text for title in drawn.iter(f"{SVG}title")]
        # Each rank's row, and that of all: a private interval twice, one of two ranks three times.
        self.assertEqual(len(titles), 6 * 2 + 2 * 3)

    def test_vectors_and_boxes_repeat(self):
        box = {"sizes": [4, 8], "subsizes": [4, 1], "starts": [0, 7], "element": 2}  # the last 2 bytes of 16
        text = self.show({"views": [{"vector": [1, 15, 16], "extent": 16}, {"subarray": box}]})
        self.assertIn("3 intervals in 16 bytes, of which the last 16 repeat; 15 bytes private; 1 byte shared by 2\n", text)

    # The patterns are encoded: 4 times 8 bytes, 16 apart, from 0 and from 4 on.
    def test_views_of_a_report(self):
        views = [{"rank": rank, "displacement": 0, "extent": 64, "pattern": pattern}
                 for rank, pattern in enumerate(("5001000104200008b9761f08", "50010801042000081929e9d5"))]
        files = [{"file": "empty", "views": []}, {"file": "data", "views": views}]
        for options in ((), ("--file", "data")):
            text = self.show({"version": 1, "files": files}, *options)
            self.assertIn("3 intervals in 16 bytes, of which the last 16 repeat; 8 bytes private; 4 bytes shared by 2\n",
                          text)
        report = {"version": 1, "files": files}
        self.assertIn("it holds no views of empty, but of data", self.show(report, "--file", "empty", status=1))
        self.assertIn("the report has no file nosuch, but empty, data",
                      self.show(report, "--file", "interval:nosuch", status=1))
        files.append({"file": "more", "views": views})
        self.assertIn("choose one of the report's files by --file: data, more", self.show(report, status=1))
        self.assertIn("3 intervals", self.show(report, "--file", "interval:more"))

    def test_bad_descriptions_are_refused(self):
        for document in ("", "{}", '{"views": [{"regions": [[-5, 2]]}]}', '{"views": [{"extent": 0, "regions": []}]}',
                         '{"views": [{"pattern": "50010801042000081929e9d6"}]}', '{"views": [{"rank": -1}]}'):
            self.assertIn("stridio show: ", self.show(document, status=1))
        for view, why in (({"extent": 64, "vectr": [4, 8, 16]}, '"vectr" is unknown in a view'),
                          ({"extent": 8, "regions": [[0, 16]]}, "beyond its extent 8"),
                          ({"regions": [[0, 16], [8, 16]]}, "begins before the end"),
                          ({"regions": [[0, 0]]}, "[0,0] is empty"), ({"vector": [1, 2]}, "not [3 numbers]"),
                          ({"subarray": {"sizes": [4], "subsizes": [4], "starts": [1]}}, "beyond the array's size 4"),
                          ({}, "exactly one of regions, vector and subarray")):
            with self.subTest(view=view):
                said = self.show({"views": [{"regions": [[0, 1]]}, view]}, status=1)
                self.assertIn("view of rank 1: ", said)
                self.assertIn(why, said)
                self.assertNotIn("json.exception", said)

    def test_no_half_picture_stays(self):
        source, picture = self.folder / "views.json", self.folder / "picture.svg"
        source.write_text(json.dumps({"views": [{"vector": [1000, 1, 2]}]}))
        words = [self.stridio, "show", "view", source, "--output", picture]
        done = subprocess.run(["sh", "-c", 'trap "" XFSZ; ulimit -f 1; exec "$@"', "sh", *words], capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("picture.svg", done.stderr)
        self.assertFalse(picture.exists())
