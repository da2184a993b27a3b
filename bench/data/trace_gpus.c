/* SPDX-License-Identifier: Apache-2.0
 * trace_gpus.c - what a trace says about GPUs before its events (runtime/serve/record_gpus.c has the lines);
 * see trace.h. */
#include "bench/data/trace_impl.h"

#include <stdio.h>
#include <string.h>

static const double BILLIONTH = 1e-9, MILLIONTH = 1e-6, IN_1000_S = 1e-3;
static const int64_t MOST_BYTES = INT64_C(1) << 50, MOST_NS = INT64_C(1) << 50,
                     MOST_BILLIONTHS = INT64_C(1) << 50;

/* 1 to `most` numbers with commas between them; 0: they are not. */
static int read_list(const char **at, int least, int greatest, int most, int *out) {
    int64_t v;
    int n = 0;
    do {
        if (n == most || !mo_trace_number(at, least, greatest, &v)) return 0;
        out[n++] = (int)v;
    } while ((*at)[-1] == ',');
    return n;
}

static int read_kind(struct mo_trace_reader *r, const char *at) {
    struct mo_gpus *g = &r->t->gpus;
    int64_t index, units, lets, shared, memory, prepare, v[5];
    bool good = mo_trace_number(&at, g->n_kinds, g->n_kinds, &index) && index < MO_PLAN_KINDS &&
                mo_trace_number(&at, 1, MO_PLAN_UNITS, &units) &&
                mo_trace_number(&at, 1, MO_PLAN_UNITS, &lets) && mo_trace_number(&at, 0, 1, &shared) &&
                mo_trace_number(&at, 0, INT64_MAX / 4, &memory) && mo_trace_number(&at, 0, MOST_NS, &prepare);
    for (int i = 0; i < 5 && good; i++)
        good =
            mo_trace_number(&at, -MOST_BILLIONTHS, MOST_BILLIONTHS, &v[i]) && at[-1] == (i < 4 ? ',' : ' ');
    struct mo_plan_kind kind = {0};
    if (good) kind.n_sizes = read_list(&at, 1, MO_PLAN_UNITS, MO_PLAN_SIZES, kind.sizes);
    if (!kind.n_sizes || !*at)
        return mo_trace_fail(r, "not \"# kind KIND UNITS MAX_LETS SHARED_WEIGHTS MEMORY PREPARE_NS "
                                "INTERFERENCE SIZES NAME\" of the next kind");
    kind.name = mo_region_string(r->t->region, at, strlen(at));
    if (!kind.name) return mo_fail(r->err, MOIRE_ENOMEM, "%s: out of memory", r->path);
    kind.units = (int)units;
    kind.max_lets = (int)lets;
    kind.shared_weights = shared;
    kind.memory_bytes = memory;
    double *const constants[] = {&kind.interference.l2_self, &kind.interference.l2_other,
                                 &kind.interference.dram_self, &kind.interference.dram_other,
                                 &kind.interference.constant};
    for (int i = 0; i < 5; i++)
        *constants[i] = (double)v[i] * BILLIONTH;
    g->kinds[g->n_kinds] = kind;
    g->prepare_ns[g->n_kinds++] = prepare;
    return MOIRE_OK;
}

static int read_gpu(struct mo_trace_reader *r, const char *at) {
    struct mo_gpus *g = &r->t->gpus;
    int64_t index, kind;
    if (!mo_trace_number(&at, g->n_gpus, g->n_gpus, &index) || index >= MO_PLAN_GPUS ||
        !mo_trace_number(&at, 0, g->n_kinds - 1, &kind) || *at)
        return mo_trace_fail(r, "not \"# gpu INDEX KIND\" of the next GPU and a kind named before");
    g->kind[g->n_gpus++] = (int)kind;
    return MOIRE_OK;
}

static int read_ahead(struct mo_trace_reader *r, const char *at) {
    if (!mo_trace_number(&at, 1, MOST_NS, &r->t->gpus.ahead_ns) || *at)
        return mo_trace_fail(r, "not \"# ahead NS\"");
    return MOIRE_OK;
}

/* NULL: no such tenant; `at` is then of no use. */
static struct mo_trace_tenant *tenant_at(struct mo_trace_reader *r, const char **at) {
    int64_t index;
    if (!mo_trace_number(at, 0, r->t->n_tenants - 1, &index)) return NULL;
    return r->t->tenants[index].name[0] ? &r->t->tenants[index] : NULL;
}

static int read_rate(struct mo_trace_reader *r, const char *at) {
    struct mo_trace_tenant *t = tenant_at(r, &at);
    int64_t rate;
    if (!t || !mo_trace_number(&at, 0, MOST_NS, &rate) || *at)
        return mo_trace_fail(r, "not \"# rate TENANT RATE\" of a tenant named before");
    t->declared = (double)rate * IN_1000_S;
    return MOIRE_OK;
}

static int read_grid(struct mo_trace_reader *r, const char *at) {
    struct mo_trace_tenant *t = tenant_at(r, &at);
    int64_t kind, memory, in, out, link;
    int batch[MO_SHARE_GRID], share[MO_SHARE_GRID], n_batches = 0, n_shares = 0;
    if (t && mo_trace_number(&at, 0, r->t->gpus.n_kinds - 1, &kind) &&
        mo_trace_number(&at, 0, MOST_BYTES, &memory) && mo_trace_number(&at, 0, MOST_BYTES, &in) &&
        mo_trace_number(&at, 0, MOST_BYTES, &out) && mo_trace_number(&at, 0, MOST_BYTES, &link))
        n_batches = read_list(&at, 1, MO_SHARE_BATCH, MO_SHARE_GRID, batch);
    if (n_batches) n_shares = read_list(&at, 1, MO_SHARE_WHOLE, MO_SHARE_GRID, share);
    if (!n_shares || *at)
        return mo_trace_fail(r, "not \"# shares TENANT KIND MEMORY IN OUT LINK BATCHES SHARES\" of a tenant "
                                "and a kind named before");
    if (t->share[kind]) return mo_trace_fail(r, "a second '# shares' line of a tenant and a kind");
    for (int i = 1; i < n_batches; i++)
        if (batch[i] <= batch[i - 1]) return mo_trace_fail(r, "the batches of a profile must rise");
    for (int i = 1; i < n_shares; i++)
        if (share[i] <= share[i - 1]) return mo_trace_fail(r, "the shares of a profile must rise");
    struct mo_share_profile *p = mo_share_create(r->env, n_batches, batch, n_shares, share);
    if (!p) return mo_fail(r->err, MOIRE_ENOMEM, "%s: out of memory", r->path);
    p->memory_bytes = memory;
    p->in_bytes = in;
    p->out_bytes = out;
    p->copy_bytes_ns = (double)link * MILLIONTH;
    t->share[kind] = p;
    return MOIRE_OK;
}

static bool read_cell(const char **at, struct mo_share_cell *out) {
    int64_t ns, use[3];
    bool good = mo_trace_number(at, 0, MOST_NS, &ns);
    for (int i = 0; i < 3 && good; i++)
        good = mo_trace_number(at, -1, 1000000, &use[i]);
    if (!good) return false;
    double of[3];
    for (int i = 0; i < 3; i++)
        of[i] = use[i] < 0 ? -1 : (double)use[i] * MILLIONTH;
    *out = (struct mo_share_cell){ns, {of[0], of[1], of[2]}};
    return true;
}

static int read_share(struct mo_trace_reader *r, const char *at) {
    struct mo_trace_tenant *t = tenant_at(r, &at);
    struct mo_share_profile *p = NULL;
    int64_t kind, batch;
    int row = 0;
    if (t && mo_trace_number(&at, 0, r->t->gpus.n_kinds - 1, &kind) &&
        mo_trace_number(&at, 1, MO_SHARE_BATCH, &batch))
        p = t->share[kind];
    while (p && row < p->n_batches && p->batch[row] != batch)
        row++;
    if (!p || row == p->n_batches)
        return mo_trace_fail(r, "not \"# share TENANT KIND BATCH NS:SM:L2:DRAM,...\" of a batch that a "
                                "'# shares' line names");
    for (int i = 0; i < p->n_shares; i++) {
        struct mo_share_cell cell;
        if (!read_cell(&at, &cell))
            return mo_trace_fail(r, "fewer cells than the profile has shares, or one that cannot be");
        mo_share_record(p, row, i, &cell);
    }
    return *at ? mo_trace_fail(r, "more cells than the profile has shares") : MOIRE_OK;
}

int mo_trace_gpu_remark(struct mo_trace_reader *r, const char *at, bool *took) {
    static const struct {
        const char *key;
        int (*read)(struct mo_trace_reader *r, const char *at);
    } lines[] = {{"# kind ", read_kind}, {"# gpu ", read_gpu},     {"# ahead ", read_ahead},
                 {"# rate ", read_rate}, {"# shares ", read_grid}, {"# share ", read_share}};
    size_t i = 0, n = sizeof lines / sizeof *lines;
    while (i < n && !mo_trace_starts(&at, lines[i].key))
        i++;
    *took = i < n;
    if (!*took) return MOIRE_OK;
    if (r->t->version < 2) return mo_trace_fail(r, "a line about GPUs in a history of version 1");
    if (r->headed) return mo_trace_fail(r, "a line about GPUs after the first event");
    return lines[i].read(r, at);
}

int mo_trace_gpu_head(struct mo_trace_reader *r) {
    struct mo_trace *t = r->t;
    moire_error why = {0};
    char line[sizeof why.message + 160];
    if (!t->gpus.n_kinds && !t->gpus.n_gpus) return MOIRE_OK;
    if (mo_gpus_finish(&t->gpus, &why)) return mo_trace_fail(r, why.message);
    if (t->gpus.n_units != t->cores)
        return mo_trace_fail(r, "the GPUs have another number of units than '# cores'");
    for (int i = 0; i < t->n_tenants; i++)
        for (int k = 0; k < t->gpus.n_kinds; k++) {
            if (!t->tenants[i].share[k] || !mo_share_finish(t->tenants[i].share[k], &why)) continue;
            snprintf(line, sizeof line, "profile of '%s': %s", t->tenants[i].name, why.message);
            return mo_trace_fail(r, line);
        }
    return MOIRE_OK;
}

double mo_trace_gpu_predicted(const struct mo_trace *t, const struct mo_trace_query *q, int64_t begin,
                              int64_t end) {
    const struct mo_trace_tenant *tenant = &t->tenants[q->tenant];
    if (q->lead >= t->cores) return 0;
    int gpu = t->gpus.gpu_of[q->lead];
    const struct mo_share_profile *p = tenant->share[t->gpus.kind[gpu]];
    double part = 0, whole = 0;
    if (!p || !tenant->n_counts) return 0;
    for (int l = 0; l < tenant->n_layers; l++) {
        double ns = (double)tenant->times[0][l];
        whole += ns;
        part += l >= begin && l < end ? ns : 0;
    }
    int64_t ns =
        mo_share_latency(p, q->batch, mo_share_of_units(q->cores, mo_gpus_kind(&t->gpus, gpu)->units));
    return ns < MO_SHARE_NEVER ? (double)ns * part / whole : 0;
}
