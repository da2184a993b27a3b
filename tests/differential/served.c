/* SPDX-License-Identifier: Apache-2.0
 * served.c - a case through the public interface under the worst scheduling; see served.h. */
#define _GNU_SOURCE
#include "tests/differential/served.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "codegen/frontend.h"
#include "runtime/device/fpu.h"
#include "runtime/plan/plan.h"
#include "runtime/serve/runtime.h"
#include "tools/moire/verify/ways.h"

enum { TENANTS = 2, QUERIES = 16 };

struct dt_served {
    const struct mo_env *env;
    moire_runtime *runtime;
    char path[600];
};

/* A tenant with inputs of its own and the bits of a run alone. */
struct tenant {
    moire_tenant *tenant;
    moire_tensor in[DT_PORTS], want[DT_PORTS];
    int n_out;
};

struct query {
    const struct tenant *of;
    _Atomic int answers, code;
    int wrong; /* 1 + output with other bits */
};

struct dt_served *dt_served_start(const struct mo_env *env, const char *folder, moire_error *err) {
    struct dt_served *s = calloc(1, sizeof *s);
    moire_config config;
    if (!s) return NULL;
    moire_config_init(&config);
    config.threads = 2;
    config.policy = "layerwise";
    config.generic_only = 1;
    config.no_pin = 1;
    config.block_ns = 1;
    s->env = env;
    snprintf(s->path, sizeof s->path, "%s/served-%d.onnx", folder, (int)getpid());
    if (!moire_runtime_create(&config, &s->runtime, err)) return s;
    free(s);
    return NULL;
}

void dt_served_stop(struct dt_served *s) {
    if (!s) return;
    moire_runtime_destroy(s->runtime, 1);
    unlink(s->path);
    free(s);
}

static void note(void *user, const moire_answer *answer) {
    struct query *q = user;
    for (int i = 0; answer->code == MOIRE_OK && i < answer->n_outputs; i++) {
        const moire_tensor *want = &q->of->want[i], *got = &answer->outputs[i];
        if (got->bytes != want->bytes || memcmp(got->data, want->data, want->bytes)) q->wrong = 1 + i;
    }
    atomic_store(&q->code, answer->code);
    atomic_fetch_add(&q->answers, 1);
}

struct dt_served_counts dt_served_counts(const struct dt_served *s) {
    struct mo_sched_stats stats;
    if (!s) return (struct dt_served_counts){0};
    mo_runtime_stats(s->runtime, &stats);
    return (struct dt_served_counts){stats.ok + stats.cancelled, stats.blocks, stats.cancelled};
}

/* What a plan of the same kernels answers when nobody is around; denormals are flushed as by workers. */
static int alone(const struct dt_case *c, struct tenant *t, moire_error *err) {
    struct mo_graph *g;
    int rc = mo_frontend_parse(c->env, c->bytes, c->n, NULL, &(struct mo_frontend_options){0}, &g, err);
    if (rc) return rc;
    t->n_out = g->n_outputs;
    unsigned before = mo_fpu_flush();
    rc = mo_way_run_plan(g, &(struct mo_plan_options){.isa = mo_isa_detect()}, t->in, c->n_in, t->want, err);
    mo_fpu_restore(before);
    return rc;
}

static int open_tenants(struct dt_served *s, const struct dt_case *c, struct tenant *tenants,
                        moire_error *err) {
    int rc = MOIRE_OK;
    for (int i = 0; !rc && i < TENANTS; i++) {
        moire_tenant_config config;
        moire_tenant_config_init(&config);
        config.cls = i ? MOIRE_LATENCY_CRITICAL : MOIRE_BEST_EFFORT;
        config.priority = i;
        config.qos_ns = i ? 1000 : 0;
        if (i == 0)
            memcpy(tenants[i].in, c->in, sizeof c->in);
        else
            dt_make_inputs(c->graph, c->seed + 77, tenants[i].in);
        rc = alone(c, &tenants[i], err);
        if (!rc) rc = moire_load(s->runtime, s->path, &config, &tenants[i].tenant, err);
    }
    return rc;
}

static bool submit_all(struct dt_served *s, const struct dt_case *c, const struct tenant *tenants,
                       struct query *q, char *why, size_t n) {
    struct dt_random random = dt_random_of(c->seed, 5);
    moire_query handle[QUERIES];
    moire_error err;
    for (int i = 0; i < QUERIES; i++) {
        q[i].of = &tenants[i % TENANTS];
        int rc = moire_submit(q[i].of->tenant, q[i].of->in, c->n_in, 0, note, &q[i], &handle[i], &err);
        if (rc) snprintf(why, n, "submit %d: %s", i, err.message);
        if (rc) return false;
        if (dt_pick(&random, 4) == 0) moire_cancel(s->runtime, handle[dt_pick(&random, i + 1)]);
    }
    return true;
}

static bool check(const struct query *q, char *why, size_t n) {
    for (int i = 0; i < QUERIES; i++) {
        if (atomic_load(&q[i].answers) != 1)
            snprintf(why, n, "query %d has %d answers", i, atomic_load(&q[i].answers));
        else if (atomic_load(&q[i].code) != MOIRE_OK && atomic_load(&q[i].code) != MOIRE_ECANCELLED)
            snprintf(why, n, "query %d: %s", i, moire_code_name(atomic_load(&q[i].code)));
        else if (q[i].wrong)
            snprintf(why, n, "query %d: output %d has not the bits of a run alone", i, q[i].wrong - 1);
        else
            continue;
        return false;
    }
    return true;
}

static bool write_model(const struct dt_served *s, const struct dt_case *c) {
    FILE *f = fopen(s->path, "wb");
    bool ok = f && fwrite(c->bytes, 1, c->n, f) == c->n;
    return f && !fclose(f) && ok;
}

bool dt_served_try(struct dt_served *s, const struct dt_case *c, char *why, size_t n) {
    struct tenant tenants[TENANTS] = {{0}};
    struct query queries[QUERIES] = {{0}};
    moire_error err = {0};
    if (!write_model(s, c)) {
        snprintf(why, n, "cannot write '%s'", s->path);
        return false;
    }
    bool good = !open_tenants(s, c, tenants, &err);
    if (!good) snprintf(why, n, "%s", err.message);
    if (good) good = submit_all(s, c, tenants, queries, why, n);
    moire_drain(s->runtime);
    if (good) good = check(queries, why, n);
    for (int i = 0; i < TENANTS; i++) {
        if (tenants[i].tenant) moire_unload(tenants[i].tenant, NULL);
        mo_way_free(s->env, tenants[i].want, tenants[i].n_out);
    }
    return good;
}
