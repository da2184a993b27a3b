/* SPDX-License-Identifier: Apache-2.0
 * ceiling.c - times the loops of probe/ on every thread at once; see ceiling.h.
 *
 * Each worker takes the best of many short batches, and the rates of the workers are added: a moment in which
 * the machine was slow does not lower the ceiling.  Buffers are the worker's own and written before they are
 * read, so that its pages are near it and real. */
#include <math.h>
#include <string.h>
#include "bench/kernels/ceiling.h"
#include "bench/load/together.h"
#include "runtime/device/topology.h"

enum { BATCH_NS = 100000, PROBE_NS = 20000000, FEWEST = 3, HUGE_PAGE = 2 << 20, KIB = 1024 };
static const int64_t most_tried = 256 << 20;

struct session {
    const struct mo_env *env;
    const struct mo_probe *probe;
    struct mo_ceiling *c;
    bool fma_only;
    char **buffer; /* of every worker: 2 MiB aligned, `bytes` */
    size_t bytes;
    double *rate; /* of every worker, for the probe that runs */
};

/* One batch of one probe. */
struct batch {
    const struct mo_probe *probe;
    char *buffer;
    int form;       /* multiply-adds of this form, or -1: */
    bool copy;      /* copy or read */
    int64_t floats; /* of the buffer */
    int64_t times;
};

static float run_batch(const struct batch *b) {
    float *data = (float *)(void *)b->buffer, sum = 0;
    if (b->form >= 0) return b->probe->tile[b->form](data, data + MO_PROBE_FLOATS, b->times);
    for (int64_t i = 0; i < b->times; i++) {
        if (b->copy)
            b->probe->copy(data + b->floats / 2, data, b->floats / 2);
        else
            sum += b->probe->read(data, b->floats);
    }
    return sum;
}

/* Shortest time of one round of the batch, ns. */
static double best_of(const struct mo_env *env, struct batch *b) {
    double best = INFINITY;
    volatile float sink = run_batch(b);
    int64_t begin = mo_now(env), end = begin;
    for (int n = 0; n < FEWEST || end - begin < PROBE_NS; n++) {
        int64_t start = end;
        sink = run_batch(b);
        end = mo_now(env);
        best = fmin(best, (double)(end - start) / (double)b->times);
        if (end - start < BATCH_NS && b->times < 1 << 24) b->times *= 2;
    }
    (void)sink;
    return best;
}

/* Every worker runs the batch at the same time; worker 0 returns the sum of their rates, units / ns. */
static double all_at_once(struct session *s, struct mo_together *team, int worker, struct batch b,
                          double units) {
    double total = 0;
    b.probe = s->probe;
    b.buffer = s->buffer[worker];
    b.times = 1;
    if (team->n > 1) mo_barrier_wait(&team->barrier, worker);
    s->rate[worker] = units / fmax(best_of(s->env, &b), 1);
    if (team->n > 1) mo_barrier_wait(&team->barrier, worker);
    for (int w = 0; worker == 0 && w < team->n; w++)
        total += s->rate[w];
    return total;
}

static void measure_fma(struct session *s, struct mo_together *team, int worker) {
    float *operands = (float *)(void *)s->buffer[worker];
    for (int i = 0; i < 2 * MO_PROBE_FLOATS; i++)
        operands[i] = i < MO_PROBE_FLOATS ? 1e-3f : (float)(i % 7) - 3;
    for (int form = 0; form < MO_PROBE_FORMS; form++) {
        const int vectors = form == MO_PROBE_PAIRED ? 2 : 1;
        double flops = 2.0 * vectors * s->probe->lanes * s->probe->pixels[form] * MO_PROBE_DEPTH;
        double gf = all_at_once(s, team, worker, (struct batch){.form = form}, flops);
        if (worker == 0) s->c->gf[form] = gf;
        if (worker == 0 && gf > s->c->fma_gf) s->c->fma_gf = gf;
    }
}

static void measure(void *ctx, struct mo_together *team, int worker) {
    struct session *s = ctx;
    memset(s->buffer[worker], 0, s->bytes);
    measure_fma(s, team, worker);
    for (int l = 0; !s->fma_only && l < MO_LEVELS; l++) {
        const int64_t bytes = s->c->level[l].tried;
        struct batch b = {.form = -1, .floats = bytes / (int64_t)sizeof(float)};
        double read = all_at_once(s, team, worker, b, (double)bytes);
        b.copy = true;
        double copy = all_at_once(s, team, worker, b, (double)bytes);
        if (worker != 0) continue;
        s->c->level[l].read_gb = read;
        s->c->level[l].copy_gb = copy;
    }
}

static int run(struct session *s, moire_error *err) {
    const struct mo_env *env = s->env;
    size_t n = (size_t)s->c->threads;
    s->buffer = mo_alloc(env, n * sizeof *s->buffer);
    s->rate = mo_alloc(env, n * sizeof *s->rate);
    bool enough = s->buffer && s->rate;
    for (size_t w = 0; enough && w < n; w++) {
        s->buffer[w] = env->sys->alloc(env->sys->self, s->bytes < HUGE_PAGE ? 64 : HUGE_PAGE, s->bytes);
        enough = s->buffer[w] != NULL;
    }
    int rc = enough ? mo_together(env, s->c->threads, measure, s, err)
                    : mo_fail(err, MOIRE_ENOMEM, "out of memory for probes of %zu bytes a thread", s->bytes);
    for (size_t w = 0; s->buffer && w < n; w++)
        mo_free(env, s->buffer[w]);
    mo_free(env, s->buffer);
    mo_free(env, s->rate);
    return rc;
}

/* Probe sizes: well inside a level and well outside the one before.  An L3 that guests share may grant little
 * of what it is said to have. */
static int sizes(const struct mo_env *env, struct mo_ceiling *c, moire_error *err) {
    struct mo_topology *topology;
    int rc = mo_topology_create(env, NULL, 0, "", &topology, err);
    if (rc) return rc;
    int64_t n = c->threads, l2 = topology->l2_bytes ? topology->l2_bytes : 512 * KIB;
    int64_t l3 = topology->l3_bytes > 2 * l2 ? topology->l3_bytes : 8 * l2;
    mo_topology_destroy(topology);
    int64_t memory = 4 * l3 / n < 8 * l2 ? 8 * l2 : 4 * l3 / n;
    const int64_t tried[MO_LEVELS] = {
        [MO_LEVEL_L1] = 16 * KIB,
        [MO_LEVEL_L2] = l2 / 2,
        [MO_LEVEL_L3] = l3 / 4 / n > 2 * l2 ? l3 / 4 / n : 2 * l2,
        [MO_LEVEL_MEMORY] = memory < most_tried ? memory : most_tried,
    };
    const int64_t capacity[MO_LEVELS] = {[MO_LEVEL_L1] = 32 * KIB * n,
                                         [MO_LEVEL_L2] = l2 * n,
                                         [MO_LEVEL_L3] = l3,
                                         [MO_LEVEL_MEMORY] = INT64_MAX};
    for (int l = 0; l < MO_LEVELS; l++) {
        c->level[l].tried = tried[l] / 4096 * 4096;
        c->level[l].capacity = capacity[l];
    }
    return MOIRE_OK;
}

int mo_ceiling_measure(const struct mo_env *env, enum mo_isa isa, int threads, struct mo_ceiling *out,
                       moire_error *err) {
    *out = (struct mo_ceiling){.isa = isa, .threads = threads};
    int rc = sizes(env, out, err);
    struct session s = {.env = env, .probe = mo_probe_of(isa), .c = out};
    s.bytes = (size_t)out->level[MO_LEVEL_MEMORY].tried;
    return rc ? rc : run(&s, err);
}

int mo_ceiling_again(const struct mo_env *env, const struct mo_ceiling *old, double *fma_gf,
                     moire_error *err) {
    struct mo_ceiling c = {.isa = old->isa, .threads = old->threads};
    struct session s = {.env = env, .probe = mo_probe_of(old->isa), .c = &c, .fma_only = true};
    s.bytes = 2 * MO_PROBE_FLOATS * sizeof(float);
    int rc = run(&s, err);
    *fma_gf = c.fma_gf;
    return rc;
}

/* --- use ------------------------------------------------------------------------------------------------ */
const char *mo_level_name(enum mo_level level) {
    static const char *const names[MO_LEVELS] = {
        [MO_LEVEL_L1] = "L1", [MO_LEVEL_L2] = "L2", [MO_LEVEL_L3] = "L3", [MO_LEVEL_MEMORY] = "memory"};
    return level >= 0 && level < MO_LEVELS ? names[level] : "";
}

double mo_ceiling_bound(const struct mo_ceiling *c, double flops, double bytes, const char **limit) {
    int l = 0;
    while (l < MO_LEVEL_MEMORY && bytes > (double)c->level[l].capacity)
        l++;
    double gb = fmax(c->level[l].read_gb, c->level[l].copy_gb);
    double compute = c->fma_gf > 0 ? flops / c->fma_gf : 0, traffic = gb > 0 ? bytes / gb : 0;
    *limit = compute >= traffic ? "fma" : mo_level_name((enum mo_level)l);
    return fmax(compute, traffic);
}

json_t *mo_ceiling_json(const struct mo_ceiling *c) {
    json_t *levels = json_array();
    for (int l = 0; l < MO_LEVELS; l++)
        json_array_append_new(levels,
                              json_pack("{s:s, s:I, s:f, s:f}", "level", mo_level_name((enum mo_level)l),
                                        "probe_bytes", (json_int_t)c->level[l].tried, "read_gb_s",
                                        c->level[l].read_gb, "copy_gb_s", c->level[l].copy_gb));
    return json_pack("{s:s, s:i, s:f, s:{s:f, s:f}, s:o}", "isa", mo_isa_name(c->isa), "threads", c->threads,
                     "fma_gflops", c->fma_gf, "forms", "paired_broadcasts", c->gf[MO_PROBE_PAIRED],
                     "folded_broadcasts", c->gf[MO_PROBE_FOLDED], "levels", levels);
}
