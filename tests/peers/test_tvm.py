#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_tvm.py - TVM as a peer, as far as it needs no TVM: what is said where it is missing or has not tuned a
model, which changes ask for another program, how its database is read, the table.  `make check-tvm` runs it with
`python3 -S`, so that no package is found, TVM's least of all."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

PEERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "peers")
sys.path.insert(0, PEERS)

import tvm_cache  # noqa: E402
import tvm_compare  # noqa: E402
import tvm_schedule  # noqa: E402
import tvm_tune  # noqa: E402

PORTS = [("x", (1, 3, 8, 8), "float32")]


def record(task, seconds, tiles, unroll):
    """A line of the database, as TVM 0.27 writes it, with the instructions that matter here."""
    steps = [["GetSBlock", [], ["conv2d", "main"], ["b0"]]]
    decisions = []
    for tile in tiles:
        decisions.append([len(steps), tile])
        steps.append(["SamplePerfectTile", ["l1"], [len(tile), 64], ["v1"]])
    decisions.append([len(steps), unroll])
    steps.append(["SampleCategorical", [], [[0, 16, 64, 512], [0.25] * 4], ["v2"]])
    steps += [["EnterPostproc", [], [], []], ["Vectorize", ["l2"], [], []], ["TransformLayout", ["b0"], [], []]]
    return [task, [[steps, decisions], seconds, {"kind": "llvm"}, [["TENSOR", "float32", [1, 8, 8, 3]]]]]


class Folder(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.model = os.path.join(self.place.name, "m.onnx")
        self.write("m.onnx", "a model")

    def tearDown(self):
        self.place.cleanup()

    def write(self, name, text):
        with open(os.path.join(self.place.name, name), "w") as f:
            f.write(text)


class Missing(Folder):
    def test_without_tvm_the_remedy_is_named(self):
        with mock.patch.object(tvm_cache, "version", return_value=None):
            self.assertIn("tools/setup --tvm", tvm_cache.why_not(self.model, PORTS, 1, self.place.name))

    def test_the_command_says_so_too(self):
        done = subprocess.run([sys.executable, "-S", os.path.join(PEERS, "tvm_tune.py"), self.model, "--minutes", "1"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("tools/setup --tvm", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_a_model_that_is_not_tuned_comes_with_the_command(self):
        with mock.patch.object(tvm_cache, "version", return_value="1"):
            why = tvm_cache.why_not(self.model, PORTS, 2, self.place.name)
            self.assertIn(f"tvm_tune.py {self.model} --threads 2 --minutes M --shape x=1,3,8,8", why)
            folder = tvm_cache.folder_of(self.model, PORTS, 2, self.place.name)
            os.makedirs(folder)
            self.assertIsNotNone(tvm_cache.why_not(self.model, PORTS, 2, self.place.name))  # interrupted
            tvm_cache.keep(folder, {"trials": 3})
            self.assertIsNone(tvm_cache.why_not(self.model, PORTS, 2, self.place.name))
            self.assertEqual(tvm_cache.about(folder), {"trials": 3})


class Key(Folder):
    def test_whatever_the_program_depends_on_is_in_its_place(self):
        places = [tvm_cache.folder_of(self.model, PORTS, 1), tvm_cache.folder_of(self.model, PORTS, 2),
                  tvm_cache.folder_of(self.model, [("x", (2, 3, 8, 8), "float32")], 1)]
        with mock.patch.object(tvm_cache, "version", return_value="another"):
            places.append(tvm_cache.folder_of(self.model, PORTS, 1))
        with mock.patch.object(tvm_cache, "cpu_name", return_value="another"):
            places.append(tvm_cache.folder_of(self.model, PORTS, 1))
        self.write("m.onnx", "another model")
        places.append(tvm_cache.folder_of(self.model, PORTS, 1))
        self.assertEqual(len(set(places)), len(places))

    def test_the_same_has_the_same_place(self):
        self.assertEqual(tvm_cache.folder_of(self.model, PORTS, 1),
                         tvm_cache.folder_of(self.model, [("x", [1, 3, 8, 8], "float32")], 1))


class Schedule(Folder):
    def test_the_shortest_of_each_task_and_what_it_chose(self):
        records = [record(0, [0.004, 0.003], [[1, 8]], 0), record(0, [0.002], [[2, 4], [1, 3]], 2),
                   record(1, [0.005], [[8, 1]], 3), record(1, [1e10], [[4, 2]], 1)]
        self.write(tvm_schedule.RECORDS, "".join(json.dumps(r) + "\n" for r in records))
        longest, other = tvm_schedule.best_of(self.place.name)
        self.assertEqual((longest["ms"], longest["tiles"], longest["unroll"]), (5.0, [[8, 1]], 512))
        self.assertEqual((other["ms"], other["tiles"], other["unroll"]), (2.0, [[2, 4], [1, 3]], 64))
        self.assertEqual(other["shapes"], [[1, 8, 8, 3]])
        self.assertTrue(other["vectorised"] and other["filters_laid_out"])
        self.assertFalse(other["writes_through_a_tile"])

    def test_only_failures_are_no_schedule(self):
        self.write(tvm_schedule.RECORDS, json.dumps(record(0, [1e10], [[1, 8]], 0)) + "\n")
        self.assertEqual(tvm_schedule.best_of(self.place.name), [])

    def test_no_database_is_no_schedule(self):
        self.assertEqual(tvm_schedule.best_of(self.place.name), [])


class Words(unittest.TestCase):
    def test_shapes(self):
        self.assertEqual(tvm_tune.shapes_of(["a=1,2", "b:0=3"]), {"a": [1, 2], "b:0": [3]})
        with self.assertRaises(ValueError):
            tvm_tune.shapes_of(["1,2"])

    def test_table(self):
        row = {"what": "net", "threads": 1, "moire_tunes_s": 90.4, "tvm_tunes_s": 101, "moire_ms": 2, "tvm_ms": 5,
               "tvm": {"trials": 77}}
        lines = tvm_compare.table([row]).splitlines()
        self.assertEqual(lines[2], "| net | 1 | 90 | 101 | 77 | 2.000 | 5.000 | 2.50 |")
        self.assertEqual({line.count("|") for line in lines}, {9})


if __name__ == "__main__":
    unittest.main()
