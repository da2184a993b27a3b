/* SPDX-License-Identifier: Apache-2.0
 * choice_models.c - decisions of a runtime beside its models; see choice_models.h. */
#include "bench/choice/choice_models.h"

#include "bench/choice/choices.h"
#include "runtime/plan/versions.h"

enum { ROWS = 256 /* the limit 'tenants' */ };

/* Fills a model that the region then owns the arrays of; false: out of memory. */
static bool describe(struct mo_region *region, const struct mo_tenant_parts *t, struct mo_choice_model *out) {
    size_t n = t->plan ? (size_t)t->plan->n_steps : 0;
    unsigned char *versions = mo_region_array(region, n + 1, sizeof *versions);
    int64_t *one = mo_region_array(region, n + 1, sizeof *one),
            *all = mo_region_array(region, n + 1, sizeof *all);
    const char **label = mo_region_array(region, n + 1, sizeof *label);
    if (!versions || !one || !all || !label) return false;
    for (int k = 0; k < (int)n; k++) {
        versions[k] = (unsigned char)t->plan->steps[k].n_versions;
        one[k] = mo_profile_time(t->profile, 1, k, k + 1);
        all[k] = mo_profile_time(t->profile, t->profile->max_cores, k, k + 1);
        label[k] = t->plan->steps[k].node->name;
    }
    *out = (struct mo_choice_model){.name = t->name,
                                    .n_layers = (int)n,
                                    .versions = versions,
                                    .one_core_ns = one,
                                    .all_cores_ns = all,
                                    .label = label};
    return true;
}

static json_t *choices_of(const struct mo_runtime_parts *parts, const struct mo_choice_model *models, int n,
                          int64_t from, int64_t to) {
    struct mo_choices choices;
    struct mo_device_now now;
    mo_device_take(parts->cores);
    int bad = mo_choices_gather(parts->env, mo_device_events(parts->cores), from, models, n, &choices);
    mo_device_drop(parts->cores);
    if (bad) return NULL;
    mo_device_now(parts->cores, -1, &now);
    json_t *out = mo_choices_json(&choices, models, n, from, to, now.block_ns);
    mo_choices_free(&choices);
    return out;
}

json_t *mo_bench_choices(moire_runtime *runtime, int64_t from, int64_t to) {
    const struct mo_runtime_parts parts = mo_runtime_parts(runtime);
    moire_tenant_row rows[ROWS];
    int n = 0;
    moire_tenants(runtime, rows, ROWS, &n, NULL);
    if (n > ROWS) n = ROWS;
    struct mo_region *region = mo_region_create(parts.env);
    struct mo_choice_model *models = region ? mo_region_array(region, (size_t)n + 1, sizeof *models) : NULL;
    bool good = models && mo_device_events(parts.cores);
    for (int i = 0; good && i < n; i++) { /* rows are in the order of loading, as tenants of events are */
        const struct mo_tenant_parts tenant = mo_tenant_parts(rows[i].tenant);
        good = describe(region, &tenant, &models[i]);
    }
    json_t *out = good ? choices_of(&parts, models, n, from, to) : NULL;
    mo_region_destroy(region);
    return out;
}
