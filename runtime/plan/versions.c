/* SPDX-License-Identifier: Apache-2.0
 * versions.c - versions of layers in a plan; see versions.h. */
#include "runtime/plan/versions.h"

#include <string.h>
#include "variants/conv_geometry.h"
#include "variants/packed.h"

static const double MARGIN = 0.98;

/* Weights for a version: those of an earlier one of its packing, or packed anew while memory allows. */
static bool find_weights(struct mo_plan *plan, const struct mo_step *step, struct mo_version *list, int n) {
    struct mo_version *v = &list[n];
    for (int i = 0; i < n; i++)
        if (list[i].packing == v->packing) {
            v->weights = list[i].weights;
            v->bias = list[i].bias;
            return true;
        }
    int64_t bytes = v->packing > MO_PACK_NONE && v->packing < MO_PACK_COUNT
                        ? mo_pack_bytes(v->packing, plan->graph, step->node)
                        : -1;
    if (bytes < 0 || 2 * (plan->version_bytes + bytes) > plan->packed_bytes) return false;
    if (mo_pack_weights(v->packing, plan->graph, step->node, plan->region, &v->weights, &v->bias, NULL))
        return false;
    if (mo_packed_is_absent(v->weights)) return false; /* a compiled model made before these versions */
    plan->version_bytes += bytes;
    return true;
}

void mo_plan_versions(struct mo_plan *plan, const struct mo_plan_options *options, const char *signature,
                      struct mo_step *step) {
    struct mo_store_version found[MO_STORE_VERSIONS];
    int64_t own = step->weights ? mo_pack_bytes(step->packing, plan->graph, step->node) : 0;
    if (own > 0) plan->packed_bytes += own;
    int n = mo_store_versions(options->store, signature, options->isa, found);
    struct mo_version *list = n ? mo_region_array(plan->region, (size_t)n, sizeof *list) : NULL;
    if (!list || found[0].variant.run != step->run) return;
    for (int i = 0; i < n; i++) {
        const struct mo_variant *from = &found[i].variant;
        struct mo_version *v = &list[step->n_versions];
        *v = (struct mo_version){.run = from->run,
                                 .kernel = from->name,
                                 .packing = (enum mo_packing)from->packing,
                                 .weights = step->weights,
                                 .bias = step->bias,
                                 .units = from->units,
                                 .scratch_bytes = from->scratch_bytes,
                                 .block_bytes = from->block_bytes,
                                 .l3_bytes = from->l3_bytes};
        v->cores = found[i].cores;
        v->part_ns = found[i].part_ns;
        memcpy(v->ns, found[i].ns, sizeof v->ns);
        if (from->units < 1 || !from->run || (i && !find_weights(plan, step, list, step->n_versions)))
            continue;
        step->n_versions++;
        if (v->scratch_bytes > plan->scratch_bytes) plan->scratch_bytes = v->scratch_bytes;
    }
    step->version = list;
}

/* Share of the core with most units. */
static double largest_share(int64_t units, int cores) {
    const int64_t most = (units + cores - 1) / cores;
    return (double)most / (double)units;
}

double mo_version_time(const struct mo_version *v, double pressure, int cores) {
    double even = mo_version_ns(v->ns, pressure);
    if (cores < 2) return even;
    even *= largest_share(v->units, cores);
    if (v->cores < 2 || v->part_ns <= 0) return even;
    double longer = v->part_ns / (v->ns[0] * largest_share(v->units, v->cores)) - 1;
    double at = cores < v->cores ? (double)(cores - 1) / (v->cores - 1) : 1;
    return even * (1 + longer * at);
}

int mo_version_choose(const struct mo_step *step, double pressure, int cores) {
    int best = 0;
    double least = step->n_versions ? MARGIN * mo_version_time(&step->version[0], pressure, cores) : 0;
    for (int i = 1; i < step->n_versions; i++) {
        double ns = mo_version_time(&step->version[i], pressure, cores);
        if (ns >= least) continue;
        least = ns;
        best = i;
    }
    return best;
}

bool mo_plan_slowdown(const struct mo_plan *plan, double out[MO_STORE_LEVELS]) {
    double sum[MO_STORE_LEVELS] = {0};
    for (int k = 0; k < plan->n_steps; k++) {
        const struct mo_step *step = &plan->steps[k];
        const double *ns = step->n_versions ? step->version[0].ns : NULL;
        if (!ns || ns[MO_STORE_LEVELS - 1] == ns[0]) continue; /* measured without pressure only */
        for (int level = 0; level < MO_STORE_LEVELS; level++) {
            int chosen = mo_version_choose(step, (double)level / (MO_STORE_LEVELS - 1), 1);
            sum[level] += step->version[chosen].ns[level];
        }
    }
    for (int level = 0; level < MO_STORE_LEVELS; level++) {
        out[level] = sum[0] > 0 ? sum[level] / sum[0] : 1;
        if (level && out[level] < out[level - 1]) out[level] = out[level - 1];
    }
    return sum[0] > 0;
}

int64_t mo_plan_version_bytes(const struct mo_plan *plan) {
    return plan->version_bytes;
}
