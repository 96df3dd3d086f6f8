"""`stridio show view`: the views of ranks as a table and as a picture."""

import itertools
import json
import struct
import subprocess
import xml.etree.ElementTree as ElementTree
import zlib

from support import CommandTest

SVG = "{http://www.w3.org/2000/svg}"

# Ranks 0 and 1 share two intervals; rank 2 shares none.
FIGURE = {"end": 125, "views": [{"regions": [[0, 25], [50, 25]]}, {"regions": [[15, 25], [65, 25]]},
                                {"regions": [[40, 10], [90, 35]]}]}


def png_rows(png):
    """The rows of an RGB picture, from the top, as bytes."""
    stride = 3 * struct.unpack_from(">I", png, 16)[0]
    packed, at = b"", 8
    while at < len(png):
        length, kind = struct.unpack_from(">I4s", png, at)
        if kind == b"IDAT":
            packed += png[at + 8:at + 8 + length]
        at += 12 + length
    predictors = (lambda left, up, corner: 0, lambda left, up, corner: left, lambda left, up, corner: up,
                  lambda left, up, corner: (left + up) // 2,
                  lambda left, up, corner: min(left, up, corner, key=lambda each: abs(left + up - corner - each)))
    above, lines = bytes(3 + stride), zlib.decompress(packed)
    for begin in range(0, len(lines), 1 + stride):
        line = bytearray(3) + lines[begin + 1:begin + 1 + stride]
        predict = predictors[lines[begin]]
        for i in range(3, len(line)):
            line[i] = (line[i] + predict(line[i - 3], above[i], above[i - 3])) % 256
        above = line
        yield bytes(line[3:])


class ShowView(CommandTest):
    def show(self, document, *options, status=0):
        source = self.folder / "views.json"
        source.write_text(document if isinstance(document, str) else json.dumps(document))
        done = self.run_stridio("show", "view", str(source), *options)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def test_the_papers_figure(self):
        picture = self.folder / "figure.svg"
        text = self.show(FIGURE, "--output", str(picture))
        self.assertIn("8 intervals in 125 bytes; 105 bytes private; 20 bytes shared by 2\n", text)
        self.assertIn("          15 - 24           shared by ranks 0-1\n", text)
        self.assertIn("          90 - 124          private to rank 2\n", text)
        drawn = ElementTree.parse(picture).getroot()
        titles = [title.text for title in drawn.iter(f"{SVG}title")]
        # Each rank's row, and that of all: a private interval twice, one of two ranks three times.
        self.assertEqual(len(titles), 6 * 2 + 2 * 3)

    def test_as_png(self):
        picture = self.folder / "figure.png"
        self.show(FIGURE, "--output", str(picture))
        png = picture.read_bytes()
        self.assertTrue(png.startswith(b"\x89PNG\r\n\x1a\n"))
        self.assertEqual(struct.unpack_from(">4sII", png, 12), (b"IHDR", 2200, 324))
        private, shared, nothing = (bytes.fromhex(color) for color in ("56B4E9", "E69F00", "FFFFFF"))
        middles = list(itertools.islice(png_rows(png), 86, 219, 44))  # of the ranks' rows and that of all
        for row, colors in enumerate(((private, shared, nothing, nothing), (nothing, shared, nothing, nothing),
                                      (nothing, nothing, private, private), (private, shared, private, private))):
            for byte, color in zip((5, 20, 45, 100), colors):
                with self.subTest(row=row, byte=byte):
                    x = 2 * (80 + 8 * byte + 4)
                    self.assertEqual(middles[row][3 * x:3 * x + 3], color)

    def test_what_is_small_is_seen(self):
        picture = self.folder / "small.svg"
        for regions, drawn in (([[500, 1]], 1), ([[0, 1], [2, 1]], 1), ([[0, 1], [1 << 19, 1]], 2)):
            with self.subTest(regions=regions):
                self.show({"end": 1 << 20, "views": [{"regions": regions}]}, "--output", str(picture))
                boxes = ElementTree.parse(picture).iter(f"{SVG}rect")
                seen = [box for box in boxes if box.find(f"{SVG}title") is not None]
                self.assertEqual(len(seen), 2 * drawn)  # in the rank's row, and that of all
                for box in seen:
                    self.assertGreaterEqual(float(box.get("width")), 0.3)
                    self.assertGreaterEqual(float(box.get("fill-opacity")), 0.15)

    def test_the_ending_says_which_picture(self):
        for name in ("views.pdf", "views", "png"):
            picture = self.folder / name
            said = self.show(FIGURE, "--output", str(picture), status=125)
            self.assertIn(f"{picture} is no picture: its name must end in .svg or .png", said)
            self.assertFalse(picture.exists())

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
                          ({"subarray": {"sizes": [4], "subsizes": [1 << 62], "starts": [1 << 62]}},
                           "it ends at 9223372036854775808, beyond the array's size 4"),
                          ({"subarray": {"sizes": [1 << 40] * 2, "subsizes": [1, 1], "starts": [1 << 39, 0]}},
                           "subarray goes beyond the largest offset"),
                          ({}, "exactly one of regions, vector and subarray")):
            with self.subTest(view=view):
                said = self.show({"views": [{"regions": [[0, 1]]}, view]}, status=1)
                self.assertIn("view of rank 1: ", said)
                self.assertIn(why, said)
                self.assertNotIn("json.exception", said)

    def test_numbers_and_keys_that_are_wrong_are_named(self):
        for view, why in (({"regions": [[0, (1 << 63) - 1]]}, "is 9223372036854775807, beyond the largest offset, 46116860"),
                          ({"regions": [[0, (1 << 64) - 1]]}, "is 18446744073709551615, beyond the largest offset"),
                          ({"regions": [[0, 1e30]]}, "is 1e+30, beyond the largest offset"),
                          ({"regions": [[0, 1e3]]}, "is 1000.0, not a whole number, 0 or more, written as an integer"),
                          ({"subarray": {"sizes": [8]}}, 'subarray lacks "subsizes"'),
                          ({"subarray": {}}, 'subarray lacks "sizes"'),
                          ({"pattern": 3}, "type must be string")):
            with self.subTest(view=view):
                said = self.show({"views": [{"regions": [[0, 1]]}, view]}, status=1)
                self.assertIn("views.json: view of rank 1: ", said)
                self.assertIn(why, said)
        done = self.run_stridio("show", "view", self.folder)
        self.assertEqual((done.returncode, done.stderr),
                         (1, f"stridio show: {self.folder}: is a directory; a JSON file is wanted\n"))

    def test_many_intervals_are_not_listed(self):
        for count, listed in ((40, True), (41, False)):
            text = self.show({"views": [{"vector": [count, 1, 2]}]})
            self.assertEqual(text.count("private to rank 0"), count if listed else 0)
            self.assertEqual("They are more than 40, and not listed: --output draws them" in text, not listed)
        text = self.show({"views": [{"vector": [41, 1, 2]}]}, "--end", "80")
        self.assertEqual(text.count("private to rank 0"), 40)

    def test_no_half_picture_stays(self):
        source = self.folder / "views.json"
        source.write_text(json.dumps({"views": [{"vector": [1000, 1, 2]}]}))
        for ending in ("svg", "png"):
            picture = self.folder / f"picture.{ending}"
            words = [self.stridio, "show", "view", source, "--output", picture]
            done = subprocess.run(["sh", "-c", 'trap "" XFSZ; ulimit -f 1; exec "$@"', "sh", *words],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(picture.name, done.stderr)
            self.assertFalse(picture.exists())
