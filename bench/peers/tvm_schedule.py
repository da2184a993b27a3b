# SPDX-License-Identifier: Apache-2.0
"""tvm_schedule.py - what MetaSchedule's database says of the best schedule of each task; needs no TVM.

A line of `database_tuning_record.json` is [task, [[instructions, decisions], seconds, target, arguments]], as
TVM 0.27 writes it; a decision is [index of an instruction, what was chosen].  Seconds of a schedule that failed are
1e10, so the shortest time is always that of one that ran."""
import json
import os

RECORDS = "database_tuning_record.json"
FAILED_S = 1e9


def shortest(record):
    return min(record[1][1])


def steps_of(record):
    """(name, attributes, decision or None) of every instruction of a record."""
    instructions, decisions = record[1][0]
    chosen = {index: what for index, what in decisions}
    return [(step[0], step[2], chosen.get(i), step[1]) for i, step in enumerate(instructions)]


def summary(record):
    """One schedule: its time, tiles outermost first, and whether it unrolls, vectorises and lays filters out."""
    steps = steps_of(record)
    told = {"ms": shortest(record) * 1e3,
            "shapes": [argument[2] for argument in record[1][3]],
            "tiles": [what for name, _, what, _ in steps if name == "SamplePerfectTile"]}
    choices = [(values[0], what) for name, values, what, _ in steps if name == "SampleCategorical"]
    if choices:
        told["unroll"] = choices[-1][0][choices[-1][1]]
    names = [name for name, _, _, _ in steps]
    told["vectorised"] = "Vectorize" in names
    told["writes_through_a_tile"] = "CacheWrite" in names
    told["filters_laid_out"] = "TransformLayout" in names or "LayoutRewrite" in " ".join(names)
    return told


def best_of(folder):
    """The best schedule of every task, longest first; [] without a database."""
    best = {}
    try:
        with open(os.path.join(folder, RECORDS)) as f:
            records = [json.loads(line) for line in f if line.strip()]
    except FileNotFoundError:
        return []
    for record in records:
        if shortest(record) < FAILED_S and (record[0] not in best or shortest(record) < shortest(best[record[0]])):
            best[record[0]] = record
    return sorted((summary(record) for record in best.values()), key=lambda told: -told["ms"])
