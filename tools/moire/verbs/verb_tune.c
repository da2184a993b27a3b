/* SPDX-License-Identifier: Apache-2.0
 * verb_tune.c - `moire tune`: `moire compile` with several versions of every layer. */
#include "tools/moire/verb.h"

static const char about[] =
    "Does what `moire compile` does and keeps, beside the fastest implementation of every layer, others "
    "that\n"
    "stand pressure from neighbours better: one search pass samples implementations that differ in "
    "blocking,\n"
    "loop order and algorithm; those that miss the layer's share of the target are dropped; of the front in\n"
    "parallelism and blocking N are picked and measured beside a calibrated neighbour at six levels (see\n"
    "`moire stress`); those that the others cover within 90 % are dropped too.  The runtime chooses among "
    "them\n"
    "by pressure.  Layers that are done are skipped, so the command can be interrupted and resumed; it "
    "wants\n"
    "the machine to itself.\n";

static const char notes[] = "Examples:\n"
                            "  moire tune resnet50\n"
                            "  moire tune detector.onnx --qos 15 --budget 120\n"
                            "  moire front resnet50\n";

const struct mo_verb mo_verb_tune = {
    .name = "tune",
    .group = MO_GROUP_KERNELS,
    .summary = "compile alternative kernels of every layer for when other models contend for the cache",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_TUNE, .operands = "FILE.onnx|NAME ..."}},
    .run = mo_verb_compile_run,
};
