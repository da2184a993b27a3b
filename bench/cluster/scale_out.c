/* SPDX-License-Identifier: Apache-2.0
 * scale_out.c - the highest rate by the number of machines; see cluster.h. */
#include <stdio.h>
#include <string.h>
#include "bench/cluster/cluster_plan.h"

enum { STEPS = 9 };
/* Of what one machine holds by the parts of its models, times the machines: where the answer is looked for.
 */
static const double LOWEST = 0.2, HIGHEST = 2;
static const double LONGEST_S = 100; /* a probe, times its seconds */
static const double HOPELESS = 1.3;  /* as in cluster_rates.c */

struct study {
    struct mo_cluster_planning planning;
    double full; /* rate at which one machine is full */
    int most;    /* machines of any row */
    struct mo_cluster_result *result;
};

/* That many machines like the first. */
static int take_machines(struct study *s, int n, moire_error *err) {
    struct mo_cluster_nodes *nodes = &s->planning.nodes;
    struct mo_cluster_node *all = mo_region_array(nodes->file.region, (size_t)n, sizeof *all);
    if (!all) return mo_fail(err, MOIRE_ENOMEM, "out of memory for %d machines", n);
    for (int i = 0; i < n; i++)
        all[i] = nodes->node[0];
    nodes->node = all;
    nodes->n = n;
    return MOIRE_OK;
}

static int open_study(struct study *s, const struct mo_cluster_options *o, moire_error *err) {
    struct mo_cluster_planning *c = &s->planning;
    int code = mo_cluster_planning_open(c, o, err);
    if (code) return code;
    if (c->nodes.n_kinds != 1)
        return mo_fail(err, MOIRE_EINVAL, "%s: --scale is for machines of one number of cores", o->nodes);
    s->result = mo_alloc(c->env, sizeof *s->result);
    code = s->result ? mo_cluster_find_rates(c, err) : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    double part = 0;
    for (int m = 0; !code && m < c->simulation.mix.scenario.n_tenants; m++) {
        if (!(c->holds[m] > 0))
            return mo_fail(err, MOIRE_EFAILED, "no machine answers '%s' within its target, even alone",
                           c->simulation.mix.scenario.tenants[m].name);
        part += c->qps[m] / c->holds[m];
    }
    s->full = c->qps_all / part;
    for (int i = 0; i < o->n_scale; i++)
        if (o->scale[i] > s->most) s->most = (int)o->scale[i];
    return code;
}

static void close_study(struct study *s) {
    mo_free(s->planning.env, s->result);
    mo_cluster_planning_close(&s->planning);
}

static int probe(struct study *s, enum mo_routing routing, bool *held, moire_error *err) {
    struct mo_cluster_planning *c = &s->planning;
    const double times = (double)s->most / c->nodes.n;
    const double seconds = c->seconds * (times < LONGEST_S ? times : LONGEST_S);
    const double misses = (1 - c->target) * HOPELESS * c->qps_all * seconds;
    int code = mo_cluster_share_out(c, err);
    if (!code) code = mo_cluster_place(c, err);
    if (!code) code = mo_cluster_try(c, routing, seconds, (int64_t)misses + 1, s->result, err);
    *held = !code && !s->result->lost && !(mo_cluster_attainment(&s->result->all) < c->target);
    return code;
}

static int highest(struct study *s, enum mo_routing routing, double *qps, moire_error *err) {
    struct mo_cluster_planning *c = &s->planning;
    double low = LOWEST * s->full * c->nodes.n, high = HIGHEST * s->full * c->nodes.n;
    *qps = 0;
    for (int i = 0; i < STEPS; i++) {
        bool held;
        c->qps_all = (low + high) / 2;
        int code = probe(s, routing, &held, err);
        if (code) return code;
        if (held)
            low = *qps = c->qps_all;
        else
            high = c->qps_all;
    }
    mo_bench_say(c->session, "capacity: %d machines, %s: %.1f queries a second", c->nodes.n,
                 mo_routing_name(routing), *qps);
    return MOIRE_OK;
}

/* What a machine of its own holds under that routing; 0 = not known. */
static double of_one(const json_t *rows, const char *routing) {
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)rows, i, row) {
        const bool one = json_integer_value(json_object_get(row, "machines")) == 1;
        if (one && !strcmp(mo_json_text(row, "routing"), routing)) return mo_json_number(row, "qps");
    }
    return 0;
}

static int all_rows(struct study *s, const struct mo_cluster_options *o, json_t *rows, moire_error *err) {
    int code = MOIRE_OK;
    for (int i = 0; !code && i < o->n_scale; i++) {
        const int n = (int)o->scale[i];
        code = take_machines(s, n, err);
        for (int r = 0; !code && r < MO_ROUTINGS; r++) {
            double qps;
            if (!o->routed[r]) continue;
            code = highest(s, (enum mo_routing)r, &qps, err);
            if (code) break;
            const char *name = mo_routing_name((enum mo_routing)r);
            const double one = n == 1 ? qps : of_one(rows, name);
            json_array_append_new(rows,
                                  json_pack("{s:i, s:s, s:f, s:o}", "machines", n, "routing", name, "qps",
                                            qps, "efficiency", mo_json_known(one > 0, qps / (n * one))));
        }
    }
    return code;
}

int mo_bench_scale_out(struct mo_bench_session *session, const struct mo_cluster_options *o, json_t **out,
                       moire_error *err) {
    struct study s = {.planning = {.session = session, .env = session->env, .best = -1}};
    json_t *rows = json_array();
    *out = NULL;
    int code = open_study(&s, o, err);
    s.planning.limit =
        HIGHEST * 2; /* whatever is asked for has a place: the simulation says whether it holds */
    if (!code) code = all_rows(&s, o, rows, err);
    if (!code) {
        *out = json_pack("{s:s, s:s, s:f, s:f, s:O}", "kind", "scale", "scenario",
                         s.planning.simulation.mix.scenario.name, "target", s.planning.target, "seconds",
                         s.planning.seconds, "rows", rows);
        if (!*out) code = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    }
    json_decref(rows);
    close_study(&s);
    return code;
}

void mo_scale_out_print(const json_t *document) {
    size_t i;
    json_t *row;
    printf("highest rate at which %.1f %% are in time, and that over the machines times one machine's\n\n",
           100 * mo_json_number(document, "target"));
    printf("%8s  %-12s %12s %12s\n", "machines", "routing", "queries/s", "efficiency");
    json_array_foreach(json_object_get(document, "rows"), i, row) {
        const json_t *efficiency = json_object_get(row, "efficiency");
        printf("%8d  %-12s %12.1f ", (int)json_integer_value(json_object_get(row, "machines")),
               mo_json_text(row, "routing"), mo_json_number(row, "qps"));
        if (json_is_number(efficiency))
            printf("%12.3f\n", json_number_value(efficiency));
        else
            printf("%12s\n", "-");
    }
}
