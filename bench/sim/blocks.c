/* SPDX-License-Identifier: Apache-2.0
 * blocks.c - the blocks of each model; see blocks.h. */
#include "bench/sim/blocks.h"

#include <stdio.h>
#include <string.h>
#include "bench/report/report_page.h"
#include "runtime/policy/veltair_blocks.h"

static const char *const by_names[] = {"operations", "one-core time"};
enum { BY = sizeof by_names / sizeof *by_names };

static struct mo_blocks model_of(const struct mo_bench_simulation *m, int tenant, bool by_time) {
    return (struct mo_blocks){
        .profile = m->profile[tenant],
        .cores = m->machine.sim.n_cores,
        .target = mo_blocks_planned((double)m->mix.qos_ns[tenant]),
        .pressure = -1,
        .by_time = by_time,
    };
}

static int average_of(const struct mo_blocks *b) {
    return mo_blocks_need(b, 0, b->profile->n_layers);
}

static json_t *load_json(const struct mo_env *env, const struct mo_blocks *b, const char *active,
                         double sum) {
    double limit = mo_blocks_limit(b->cores, sum, average_of(b));
    int *end = mo_alloc(env, (size_t)b->profile->n_layers * sizeof *end);
    int n = end ? mo_blocks_form(b, 0, limit, end) : 0;
    json_t *list = json_array();
    for (int i = 0, begin = 0; i < n; begin = end[i++])
        json_array_append_new(list, json_pack("{s:i, s:i, s:i}", "begin", begin, "end", end[i], "cores",
                                              mo_blocks_need(b, begin, end[i])));
    mo_free(env, end);
    return json_pack("{s:s, s:f, s:i, s:o}", "active", active, "limit", limit, "pivots", n - 1, "blocks",
                     list);
}

static json_t *model_json(const struct mo_bench_simulation *m, int tenant, int by) {
    const struct mo_profile *p = m->profile[tenant];
    struct mo_blocks b = model_of(m, tenant, by);
    int average = average_of(&b), half = b.cores / 2;
    json_t *loads = json_array();
    json_array_append_new(loads, load_json(m->env, &b, "alone", average));
    json_array_append_new(loads, load_json(m->env, &b, "half", average > half ? average : half));
    json_array_append_new(loads, load_json(m->env, &b, "full", b.cores));
    return json_pack("{s:s, s:i, s:f, s:s, s:b, s:i, s:o}", "model", m->mix.scenario.tenants[tenant].model,
                     "layers", p->n_layers, "qos_ms", (double)m->mix.qos_ns[tenant] * 1e-6, "by",
                     by_names[by], "known", mo_profile_ops(p, 0, p->n_layers) > 0, "average", average,
                     "loads", loads);
}

int mo_bench_blocks(const struct mo_env *env, const struct mo_bench_simulate_options *o, json_t **out,
                    moire_error *err) {
    struct mo_bench_simulation m;
    int code = mo_bench_simulation_open(env, o, &m, err);
    if (code) return code;
    json_t *models = json_array();
    for (int i = 0; !m.side && i < m.mix.scenario.n_tenants; i++)
        for (int by = 0; by < BY; by++)
            json_array_append_new(models, model_json(&m, i, by));
    if (m.side)
        code = mo_fail(err, MOIRE_EINVAL, "blocks are for machines of cores");
    else
        *out = json_pack("{s:s, s:s, s:s, s:i, s:O}", "kind", "blocks", "machine", m.machine.name, "scenario",
                         m.mix.scenario.name, "cores", m.machine.sim.n_cores, "models", models);
    json_decref(models);
    mo_bench_simulation_close(&m);
    return code || *out ? code : mo_fail(err, MOIRE_ENOMEM, "out of memory");
}

static void print_load(const json_t *load) {
    int least = 0, most = 0;
    size_t i;
    json_t *b;
    json_array_foreach(json_object_get(load, "blocks"), i, b) {
        int cores = (int)mo_json_number(b, "cores");
        if (!i || cores < least) least = cores;
        if (cores > most) most = cores;
    }
    printf("  %-6s %6.1f %7d  ", mo_json_text(load, "active"), mo_json_number(load, "limit"),
           (int)mo_json_number(load, "pivots"));
    printf(least < most ? "%d to %d\n" : "%d\n", least, most);
}

static void print_model(const json_t *m) {
    size_t i;
    json_t *load;
    if (!json_is_true(json_object_get(m, "known")) && !strcmp(mo_json_text(m, "by"), by_names[0]))
        printf("%s: no operation counts in its profile: shares go by one-core time\n",
               mo_json_text(m, "model"));
    json_array_foreach(json_object_get(m, "loads"), i, load) {
        if (i)
            printf("%53s", "");
        else
            printf("%-18s %6d %7g ms %-13s %4d", mo_json_text(m, "model"), (int)mo_json_number(m, "layers"),
                   mo_json_number(m, "qos_ms"), mo_json_text(m, "by"), (int)mo_json_number(m, "average"));
        print_load(load);
    }
}

void mo_bench_blocks_print(const json_t *document) {
    size_t i;
    json_t *m;
    printf("%s on %s, %d cores\n", mo_json_text(document, "scenario"), mo_json_text(document, "machine"),
           (int)mo_json_number(document, "cores"));
    printf("%-18s %6s %10s %-12s %5s  %-6s %6s %7s  %s\n", "model", "layers", "target", "shares by", "Avg_C",
           "active", "limit", "pivots", "cores of a block");
    json_array_foreach(json_object_get(document, "models"), i, m) print_model(m);
}
