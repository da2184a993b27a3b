/* SPDX-License-Identifier: Apache-2.0
 * verb_blocks.c - `moire blocks`: how VELTAIR cuts models into blocks; see bench/sim/blocks.h. */
#include "bench/sim/blocks.h"
#include "tools/moire/verbs/bench_common.h"

static const char about[] =
    "How policy `veltair` cuts the models of a scenario into blocks of layers on a simulated machine, with\n"
    "targets shared among layers by operations (`veltair`) and by one-core time (`veltair-time`).\n"
    "\n"
    "Avg_C: cores that the whole model needs for its target.  limit: Avg_C and the model's part of the "
    "cores\n"
    "that active queries leave over.  A layer that alone needs as many is a pivot and begins a block.  "
    "Active:\n"
    "the query alone, queries that need half of the cores, or all of them.\n";

static const char notes[] = "Example:\n"
                            "  moire blocks veltair-medium --machine cores64\n";

static int blocks(const struct mo_env *env, const struct mo_options *o, json_t **document, moire_error *err) {
    char scenario[1024], machine[1024];
    struct mo_bench_simulate_options s = {.machine = machine, .serve = {.scenario = scenario}};
    int code = mo_known_find_data(MO_KNOWN_SCENARIOS, o->operands.word[0], scenario, sizeof scenario, err);
    if (!code) code = mo_known_find_data(MO_KNOWN_MACHINES, o->machine, machine, sizeof machine, err);
    if (!code) code = mo_bench_blocks(env, &s, document, err);
    if (!code && o->json) return mo_print_json(*document, err);
    if (!code) mo_bench_blocks_print(*document);
    return code;
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    moire_error err = {0};
    json_t *document = NULL;
    int code = blocks(env, o, &document, &err);
    code = code ? mo_verb_fail_with(o, &err, document) : MO_EXIT_OK;
    json_decref(document);
    return code;
}

const struct mo_verb mo_verb_blocks = {
    .name = "blocks",
    .group = MO_GROUP_SIMULATE,
    .summary = "show how VELTAIR cuts models into blocks of layers",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_BLOCKS, .operands = "SCENARIO"}},
    .run = run,
};
