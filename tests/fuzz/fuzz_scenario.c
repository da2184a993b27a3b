/* SPDX-License-Identifier: Apache-2.0
 * fuzz_scenario.c - libFuzzer target: any bytes as a scenario file, and as a plan of models on machines, are
 * read or refused, with a place.  No text of a plan that was read can end a line of another program's file.
 */
#include <stdlib.h>
#include <string.h>
#include "bench/data/scenario.h"
#include "tools/moire/scale/scale_plan.h"

static void read_scenario(const struct mo_env *env, const char *text, size_t n) {
    struct mo_bench_scenario *s = malloc(sizeof *s);
    moire_error err = {0};
    if (!s) return;
    if (mo_bench_scenario_parse(env, "fuzz.json", text, n, s, &err)) {
        if (!strstr(err.message, "fuzz.json")) abort();
    } else {
        if (s->n_tenants < 1) abort();
        mo_bench_scenario_close(s);
    }
    free(s);
}

static void read_plan(const struct mo_env *env, const char *text, size_t n) {
    struct mo_scale_plan p;
    moire_error err = {0};
    if (mo_scale_plan_parse(env, "fuzz.json", text, n, &p, &err)) {
        if (!strstr(err.message, "fuzz.json")) abort();
        return;
    }
    for (int i = 0; i < p.n_models; i++)
        if (strpbrk(p.model[i].name, "/\"' \n") || strpbrk(p.model[i].file, "\n\r")) abort();
    for (int i = 0; i < p.n_nodes; i++)
        if (strpbrk(p.node[i].name, "/\"' \n") || strpbrk(p.node[i].address, "/\"' \n") ||
            !p.node[i].n_shares)
            abort();
    mo_scale_plan_close(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct mo_env env = mo_env_default();
    read_scenario(&env, (const char *)data, size);
    read_plan(&env, (const char *)data, size);
    return 0;
}
