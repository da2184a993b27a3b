/* SPDX-License-Identifier: Apache-2.0
 * verb_tune.c - `moire tune`: `moire compile` with several versions of every layer. */
#include <stdlib.h>
#include "tools/moire/verb.h"

static const char usage[] =
    "usage: moire tune FILE.onnx|NAME ... [--versions N] [--qos MS] [FLAG...]\n\n"
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
    "the machine to itself.\n\n"
    "  --versions N   most versions of a layer, 2 to 5; 5 by default.  Layers whose versions were chosen "
    "for\n"
    "                 another number are searched anew, unless this number would choose the same\n"
    "  --qos MS       target of the model; layers share it by operation count.  Without it a layer may take\n"
    "                 twice its best time\n"
    "  --keep-covered keep all N: what other versions cover on this machine may be needed on another, whose\n"
    "                 profiles `moire profile` and `moire extend` make from these\n"
    "  --budget S     stop after about S seconds: fewer implementations of every layer are sampled\n"
    "  --cores N      that a layer may get: one version has a unit for each, unless the others do nearly as "
    "well\n"
    "All other flags are those of `moire compile`.\n\n"
    "Exit codes: as `moire compile`.\n\n"
    "Examples:\n"
    "  moire tune resnet50\n"
    "  moire tune detector.onnx --qos 15 --budget 120\n"
    "  moire front resnet50\n";

/* The flags of the caller come last and so win. */
static int run(const struct mo_env *env, int argc, char **argv) {
    char versions[] = "--versions=5";
    char **all = calloc((size_t)argc + 2, sizeof *all);
    if (!all) return MO_EXIT_SYSTEM;
    all[0] = argv[0];
    all[1] = versions;
    for (int i = 1; i < argc; i++)
        all[i + 1] = argv[i];
    int code = mo_verb_compile.run(env, argc + 1, all);
    free(all);
    return code;
}

const struct mo_verb mo_verb_tune = {
    .name = "tune",
    .summary = "compile several versions of every layer, to be chosen by pressure from neighbours",
    .usage = usage,
    .run = run,
};
