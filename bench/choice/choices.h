/* SPDX-License-Identifier: Apache-2.0
 * choices.h - what the decisions of a run were, from its events: the blocks that were formed and why they end
 * where they do, and which versions of layers ran at which pressure.
 *
 * A block is a DISPATCH with the BASIS behind it; its versions are told by the core that leads it, and where
 * nothing is told every layer ran its first.  Only layers that have more than one version count as choices.
 */
#ifndef MO_BENCH_CHOICES_H
#define MO_BENCH_CHOICES_H
#include <jansson.h>
#include "runtime/sched/events.h"
#include "runtime/sched/policy.h"
#include "variants/store.h"

enum { MO_CHOICE_BINS = 10 }; /* of the pressure from 0 to 1 */

/* A model as loaded; the arrays have an element for each layer. */
struct mo_choice_model {
    const char *name;
    int n_layers;
    const unsigned char *versions; /* that the layer has; fewer than two: nothing to choose */
    const int64_t *one_core_ns, *all_cores_ns;
    const char *const *label;
};

struct mo_choice_block {
    uint64_t query;
    int64_t time, predicted_ns;
    int tenant, begin, end, cores;
    double pressure; /* for which its versions were chosen */
    enum mo_cut cut;
    int ran[MO_STORE_VERSIONS]; /* of its layers with a choice, how many ran each version */
    /* Of these, how many the model had run before in this run, and how many in another version then. */
    int again, changed;
    unsigned char *version; /* of each of its layers */
};

struct mo_choices {
    const struct mo_env *env;
    int n;
    struct mo_choice_block *block; /* in order of query and first layer */
    unsigned char *versions;       /* of all blocks */
};

/* The blocks that were decided on from `from` on; events of tenants beyond n_models are left out.
 * MOIRE_ENOMEM or MOIRE_OK. */
int mo_choices_gather(const struct mo_env *env, const struct mo_events *events, int64_t from,
                      const struct mo_choice_model *models, int n_models, struct mo_choices *out);
void mo_choices_free(struct mo_choices *choices);
/* The bin of a pressure. */
int mo_choices_bin(double pressure);
/* "model", "bound", ...: a word for each reason. */
const char *mo_cut_name(enum mo_cut cut);

/* {"seconds", "bound_ms": block_ns, "bins": [{"from", "to", "blocks", "layers": [by version]}, ...],
 *  "blocks": [[ms, tenant, cores, first layer, layer behind the last, pressure, reason, [by version]], ...],
 *  "tenants": [{"name", "layers", "choices", "blocks", "ran": [by version], "again", "changed",
 *               "cuts": {reason: n}, "begins": [by layer],
 *               "one_core_us": [by layer], "all_cores_us": [by layer], "labels": [by layer]}, ...]}
 * "changed" of the "again" layers with a choice ran in another version than when the model ran them last.
 * Bins and blocks have those with a choice only; the latter at most some thousand, evenly taken. */
json_t *mo_choices_json(const struct mo_choices *choices, const struct mo_choice_model *models, int n_models,
                        int64_t from, int64_t to, int64_t block_ns);
#endif
