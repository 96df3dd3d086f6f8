"""`stridio show view`: the views of ranks as a table and as a picture."""

import json
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
        self.assertIn("it holds no views", self.show({"version": 1, "files": files}, "--file", "empty", status=1))

    def test_bad_descriptions_are_refused(self):
        for document in ("", "{}", '{"views": [{"regions": [[-5, 2]]}]}', '{"views": [{"extent": 0, "regions": []}]}',
                         '{"views": [{"pattern": "50010801042000081929e9d6"}]}', '{"views": [{"rank": -1}]}'):
            self.assertIn("stridio show: ", self.show(document, status=1))
