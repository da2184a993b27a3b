/* SPDX-License-Identifier: Apache-2.0
 * verb_tune.c - `moire tune`: `moire compile` with several versions of every layer. */
#include "tools/moire/verb.h"

static const char about[] =
    "Does what `moire compile` does, and keeps several versions of every layer: beside the fastest kernel\n"
    "others that lose less while other models use the shared cache.  The runtime picks among them by\n"
    "pressure, the load on that cache.\n"
    "\n"
    "Kernels that differ in blocking, loop order and algorithm are tried.  Those that take longer than the\n"
    "layer's share of the target (--qos) are dropped.  Of those that no other beats in both parallelism and\n"
    "blocking up to N (--versions) are timed beside a calibrated neighbour at six levels (see `moire\n"
    "stress`).  One that the others come within 90 % of at every level is dropped too.\n"
    "\n"
    "Layers that are done are skipped, so the command can be interrupted and resumed.  It wants the machine\n"
    "to itself.\n";

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
    .commands = {{.command = MO_DO_TUNE, .operands = "[FILE.onnx|NAME] ..."}},
    .run = mo_verb_compile_run,
};
