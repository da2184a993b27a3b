/* SPDX-License-Identifier: Apache-2.0
 * record_gpus.c - what a trace of a run on GPUs has before its events, beside what record.c tells of; lists
 * have no blanks:
 *
 *   # kind KIND UNITS MAX_LETS SHARED_WEIGHTS MEMORY PREPARE_NS INTERFERENCE SIZES NAME
 *                                     a type of GPU: units and bytes of one; INTERFERENCE: its five constants
 *                                     (interference.h), in billionths; SIZES: of lets, in units, rising
 *   # gpu INDEX KIND                  the GPUs in the order in which their units are numbered
 *   # ahead NS                        so long before a block should end the next one may be queued (gpus.h)
 *   # rate TENANT RATE                queries in 1000 s that it was said to expect; only when it was
 *   # shares TENANT KIND MEMORY IN OUT LINK BATCHES SHARES
 *                                     its profile on that type: bytes on the GPU, of a query's input and
 *                                     output, and that the link moves in a millisecond; the grid that
 *                                     `share` lines fill
 *   # share TENANT KIND BATCH NS:SM:L2:DRAM,...
 *                                     for each share: time, 0 = not measured, and use in millionths, -1 = not
 *                                     measured
 *
 * "# profile TENANT 1 NS,..." has no times but in what parts they fall to the segments. */
#include <inttypes.h>
#include "runtime/serve/gpu.h"
#include "runtime/serve/record.h"

static const double BILLIONTHS = 1e9, MILLIONTHS = 1e6, IN_1000_S = 1e3;

static int64_t whole(double v) {
    return (int64_t)(v < 0 ? v - 0.5 : v + 0.5);
}

static void put_list(FILE *f, const int *v, int n) {
    for (int i = 0; i < n; i++)
        fprintf(f, "%c%d", i ? ',' : ' ', v[i]);
}

static void put_kind(FILE *f, int index, const struct mo_plan_kind *k, int64_t prepare_ns) {
    const struct mo_interference *i = &k->interference;
    const double v[] = {i->l2_self, i->l2_other, i->dram_self, i->dram_other, i->constant};
    fprintf(f, "# kind %d %d %d %d %" PRId64 " %" PRId64, index, k->units, k->max_lets, k->shared_weights,
            k->memory_bytes, prepare_ns);
    for (size_t n = 0; n < sizeof v / sizeof *v; n++)
        fprintf(f, "%c%" PRId64, n ? ',' : ' ', whole(v[n] * BILLIONTHS));
    put_list(f, k->sizes, k->n_sizes);
    fputc(' ', f);
    mo_record_name(f, k->name && *k->name ? k->name : "GPU");
}

static int64_t use(double v) {
    return v < 0 ? -1 : whole(v * MILLIONTHS);
}

static void put_share(FILE *f, int tenant, int kind, const struct mo_share_profile *p) {
    fprintf(f, "# shares %d %d %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64, tenant, kind, p->memory_bytes,
            p->in_bytes, p->out_bytes, whole(p->copy_bytes_ns * MILLIONTHS));
    put_list(f, p->batch, p->n_batches);
    put_list(f, p->share, p->n_shares);
    fputc('\n', f);
    for (int b = 0; b < p->n_batches; b++) {
        fprintf(f, "# share %d %d %d", tenant, kind, p->batch[b]);
        for (int s = 0; s < p->n_shares; s++) {
            const struct mo_share_cell *c = &p->cell[b * p->n_shares + s];
            fprintf(f, "%c%" PRId64 ":%" PRId64 ":%" PRId64 ":%" PRId64, s ? ',' : ' ', c->ns, use(c->use.sm),
                    use(c->use.l2), use(c->use.dram));
        }
        fputc('\n', f);
    }
}

void mo_record_machine(FILE *f, const struct mo_gpus *g) {
    for (int k = 0; k < g->n_kinds; k++)
        put_kind(f, k, &g->kinds[k], g->prepare_ns[k]);
    for (int i = 0; i < g->n_gpus; i++)
        fprintf(f, "# gpu %d %d\n", i, g->kind[i]);
    if (g->ahead_ns) fprintf(f, "# ahead %" PRId64 "\n", g->ahead_ns);
}

void mo_record_gpu_tenant(FILE *f, int index, const char *name, const struct mo_sched_tenant_config *c,
                          int n_kinds) {
    mo_record_tenant(f, index, name, c);
    if (c->declared > 0) fprintf(f, "# rate %d %" PRId64 "\n", index, whole(c->declared * IN_1000_S));
    for (int k = 0; k < n_kinds; k++)
        if (c->share[k]) put_share(f, index, k, c->share[k]);
}

void mo_record_gpus(FILE *f, const moire_runtime *rt) {
    const struct mo_serve_device *d = rt->device;
    fprintf(f, "# policy %s\n", d->policy->name);
    mo_record_machine(f, &d->gpus);
    for (const moire_tenant *t = rt->tenants; t; t = t->next)
        if (t->gpu)
            mo_record_gpu_tenant(f, mo_tenant_index(t, t->gpu), t->name, &t->gpu->serving, d->gpus.n_kinds);
}
