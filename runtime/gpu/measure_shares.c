/* SPDX-License-Identifier: Apache-2.0
 * measure_shares.c - see measure_shares.h. */
#include "runtime/base/numbers.h"
#include "runtime/gpu/measure_shares.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 3, MOST = 64, WARM = 2 };
static const int64_t CELL_NS = 100000000, HANG_NS = INT64_C(20000000000);

/* --- models --------------------------------------------------------------------------------------------- */
/* Bytes of one query at a port. */
static int64_t of_query(const struct mo_gpu_port *port, int64_t batch) {
    return port->bytes / batch;
}

/* One staging block: inputs query by query, then outputs; input i of all queries lies together. */
static int lay_out(struct mo_measured *m, const struct mo_gpu_program *p, moire_error *err) {
    const struct mo_env *env = m->device->env;
    int64_t bytes = 0;
    for (int i = 0; i < p->n_inputs; i++)
        bytes += mo_round_up(p->inputs[i].bytes, MO_GPU_ALIGN);
    for (int i = 0; i < p->n_outputs; i++)
        bytes += mo_round_up(p->outputs[i].bytes, MO_GPU_ALIGN);
    size_t pointers = (size_t)p->batch * ((size_t)p->n_inputs + (size_t)p->n_outputs) * sizeof(void *);
    m->pointers = mo_alloc(env, pointers + 1);
    if (!m->pointers) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    int code = m->device->ops->staging_alloc(m->device->system, (size_t)bytes + 1, &m->staging, err);
    if (code) return code;
    memset(m->staging, 0, (size_t)bytes);
    m->inputs = m->pointers;
    m->outputs = (void **)m->pointers + (size_t)p->batch * (size_t)p->n_inputs;
    char *at = m->staging;
    for (int i = 0; i < p->n_inputs; at += mo_round_up(p->inputs[i].bytes, MO_GPU_ALIGN), i++)
        for (int64_t q = 0; q < p->batch; q++)
            m->inputs[q * p->n_inputs + i] = at + q * of_query(&p->inputs[i], p->batch);
    for (int i = 0; i < p->n_outputs; at += mo_round_up(p->outputs[i].bytes, MO_GPU_ALIGN), i++)
        for (int64_t q = 0; q < p->batch; q++)
            m->outputs[q * p->n_outputs + i] = at + q * of_query(&p->outputs[i], p->batch);
    return MOIRE_OK;
}

/* What of the bytes that an operation names comes from memory, where L2 holds `l2` bytes. */
static int64_t missed_by(const struct mo_gpu_program *p, const struct mo_gpu_op *op, int64_t l2) {
    int64_t weights = 0;
    for (int i = 0; i < op->launch.n_args; i++)
        if (op->launch.args[i].space == MO_GPU_WEIGHT) weights += p->weights[op->launch.args[i].index].bytes;
    if (weights > op->moved) weights = op->moved;
    int64_t beyond = op->moved - weights - l2;
    return (p->weight_bytes > l2 ? weights : 0) + (beyond > 0 ? beyond : 0);
}

static void count_bytes(struct mo_measured *m, int bucket, const struct mo_gpu_program *p, int64_t l2) {
    for (int i = 0; i < p->n_ops; i++) {
        m->moved[bucket] += p->ops[i].moved;
        m->missed[bucket] += missed_by(p, &p->ops[i], l2);
    }
}

static struct mo_measure_rates rates_of(const struct mo_gpu_info *info) {
    static const struct {
        const char *part;
        double dram_gb_s, l2_bytes_clock; /* of the data sheet and the architecture's white paper */
    } rows[] = {{"H200", 4800, 5120},
                {"H100 PCIe", 2000, 5120},
                {"H100", 3350, 5120},
                {"A100", 2039, 5120},
                {"V100", 900, 2048}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strstr(info->name, rows[i].part))
            return (struct mo_measure_rates){rows[i].l2_bytes_clock * info->clock_khz * 1e-6,
                                             rows[i].dram_gb_s};
    return (struct mo_measure_rates){0};
}

int mo_measured_open(const struct mo_gpu_device *device, int gpu, int n,
                     struct mo_gpu_program *const *program, struct mo_measured *out, moire_error *err) {
    const struct mo_gpu_program *largest = program[n - 1];
    *out = (struct mo_measured){.device = device,
                                .gpu = gpu,
                                .n_inputs = largest->n_inputs,
                                .n_outputs = largest->n_outputs,
                                .n_segments = largest->n_segments};
    for (int i = 0; i < largest->n_inputs; i++)
        out->in_bytes += of_query(&largest->inputs[i], largest->batch);
    for (int i = 0; i < largest->n_outputs; i++)
        out->out_bytes += of_query(&largest->outputs[i], largest->batch);
    struct mo_gpu_info info;
    int code = device->ops->describe(device->system, gpu, &info, err);
    if (!code) code = lay_out(out, largest, err);
    if (!code) out->rates = rates_of(&info);
    for (int i = 0; i < n && !code; i++) {
        out->batch[i] = (int)program[i]->batch;
        count_bytes(out, i, program[i], info.l2_bytes);
        code = device->ops->program_load(device->system, gpu, program[i], 1, &out->loaded[i], err);
        if (!code) out->n_buckets++;
    }
    if (code) mo_measured_close(out);
    return code;
}

void mo_measured_close(struct mo_measured *m) {
    if (!m->device) return;
    for (int i = 0; i < m->n_buckets; i++)
        m->device->ops->program_unload(m->loaded[i]);
    m->device->ops->staging_free(m->device->system, m->staging);
    mo_free(m->device->env, m->pointers);
    *m = (struct mo_measured){0};
}

/* --- one run after the other ---------------------------------------------------------------------------- */
/* A let that a model runs on, again and again. */
struct runner {
    const struct mo_measured *m;
    struct mo_gpu_let *let;
    int bucket, n, code;
    int64_t ns[MOST], copy_in_ns;
    char message[160];
    struct mo_gpu_times last;
    _Atomic uint32_t doorbell;
    /* side by side: */
    _Atomic int *left; /* sides that have not run often enough */
    int want;
};

static void wake(struct runner *r) {
    const struct mo_sys *sys = r->m->device->env->sys;
    atomic_fetch_add(&r->doorbell, 1);
    sys->futex_wake(sys->self, &r->doorbell, 1);
}

static int submit(struct runner *r, void (*done)(void *, int, const char *, const struct mo_gpu_times *),
                  moire_error *err) {
    struct mo_gpu_run run = {.let = r->let,
                             .program = r->m->loaded[r->bucket],
                             .begin = 0,
                             .end = r->m->n_segments,
                             .batch = r->m->batch[r->bucket],
                             .inputs = r->m->inputs,
                             .outputs = r->m->outputs,
                             .hang_ns = HANG_NS,
                             .done = done,
                             .ctx = r};
    return r->m->device->ops->run(&run, err);
}

static void note(struct runner *r, int code, const char *message, const struct mo_gpu_times *times) {
    r->code = code;
    if (code) snprintf(r->message, sizeof r->message, "%.150s", message);
    if (!code) r->last = *times;
}

static void done_once(void *ctx, int code, const char *message, const struct mo_gpu_times *times) {
    note(ctx, code, message, times);
    wake(ctx);
}

static int run_once(struct runner *r, moire_error *err) {
    const struct mo_sys *sys = r->m->device->env->sys;
    uint32_t seen = atomic_load(&r->doorbell);
    int code = submit(r, done_once, err);
    if (code) return code;
    while (atomic_load(&r->doorbell) == seen)
        sys->futex_wait(sys->self, &r->doorbell, seen, 0);
    return r->code ? mo_fail(err, r->code, "%s", r->message) : MOIRE_OK;
}

static int by_size(const void *pa, const void *pb) {
    int64_t a = *(const int64_t *)pa, b = *(const int64_t *)pb;
    return (a > b) - (a < b);
}

static int64_t median(int64_t *ns, int n) {
    qsort(ns, (size_t)n, sizeof *ns, by_size);
    int64_t v = n % 2 ? ns[n / 2] : (ns[n / 2 - 1] + ns[n / 2]) / 2;
    return v > 0 ? v : 1;
}

/* --- alone ---------------------------------------------------------------------------------------------- */
/* Share of a rate; negative: not known. */
static double use_of(int64_t bytes, int64_t ns, double rate) {
    double use = rate > 0 ? (double)bytes / (double)ns / rate : -1;
    return use < 1 ? use : 1;
}

static int measure_cell(struct runner *r, const struct mo_measure_options *o, struct mo_share_cell *cell,
                        moire_error *err) {
    const struct mo_env *env = r->m->device->env;
    int most = o->repetitions < LEAST ? LEAST : o->repetitions > MOST ? MOST : o->repetitions;
    int code = r->m->device->ops->prepare(r->m->loaded[r->bucket], r->let, err);
    for (int i = 0; i < WARM && !code; i++)
        code = run_once(r, err);
    int64_t until = mo_now(env) + (o->cell_ns ? o->cell_ns : CELL_NS);
    r->n = 0;
    while (!code && r->n < most && (r->n < LEAST || mo_now(env) < until)) {
        code = run_once(r, err);
        if (!code) r->ns[r->n++] = r->last.compute_ns;
    }
    if (code) return code;
    *cell = (struct mo_share_cell){median(r->ns, r->n), {-1, -1, -1}};
    cell->use.l2 = use_of(r->m->moved[r->bucket], cell->ns, r->m->rates.l2);
    cell->use.dram = use_of(r->m->missed[r->bucket], cell->ns, r->m->rates.dram);
    return MOIRE_OK;
}

static const struct mo_share_cell *cell_of(const struct mo_share_profile *p, int batch, int share) {
    for (int i = 0; p && i < p->n_batches; i++)
        for (int j = 0; p->batch[i] == batch && j < p->n_shares; j++)
            if (p->share[j] == share && p->cell[i * p->n_shares + j].ns > 0)
                return &p->cell[i * p->n_shares + j];
    return NULL;
}

/* All batches on lets of one size. */
static int measure_size(const struct mo_measured *m, const struct mo_measure_options *o, int at,
                        struct mo_share_profile *p, double *link, moire_error *err) {
    const struct mo_gpu_ops *ops = m->device->ops;
    struct runner r = {.m = m};
    int units = o->kind->sizes[at], code = MOIRE_OK;
    bool stop = false;
    for (int i = 0; i < m->n_buckets && !code && !stop; i++) {
        const struct mo_share_cell *had = cell_of(o->have, m->batch[i], p->share[at]);
        struct mo_share_cell cell = had ? *had : (struct mo_share_cell){0};
        r.bucket = i;
        if (!had && !r.let) code = ops->let_open(m->device->system, m->gpu, 0, units, 1, &r.let, err);
        if (!had && !code) code = measure_cell(&r, o, &cell, err);
        if (code) break;
        mo_share_record(p, i, at, &cell);
        if (!had && r.last.copy_in_ns > 0)
            *link = (double)(m->in_bytes * m->batch[i]) / (double)r.last.copy_in_ns;
        stop = o->progress && o->progress(o->ctx, at * m->n_buckets + i + 1, o->kind->n_sizes * m->n_buckets,
                                          m->batch[i], units, cell.ns);
    }
    ops->let_close(r.let);
    return code || !stop ? code : mo_fail(err, MOIRE_EINTERRUPTED, "interrupted");
}

int mo_measure_shares(const struct mo_measured *m, const struct mo_measure_options *o,
                      struct mo_share_profile **out, double *link, moire_error *err) {
    int share[MO_PLAN_SIZES];
    for (int j = 0; j < o->kind->n_sizes; j++)
        share[j] = mo_share_of_units(o->kind->sizes[j], o->kind->units);
    struct mo_share_profile *p =
        mo_share_create(m->device->env, m->n_buckets, m->batch, o->kind->n_sizes, share);
    *out = p;
    *link = 0;
    if (!p) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a profile");
    p->in_bytes = m->in_bytes;
    p->out_bytes = m->out_bytes;
    for (int i = 0; i < m->n_buckets; i++)
        p->memory_bytes += m->device->ops->program_bytes(m->loaded[i]);
    int code = MOIRE_OK;
    for (int j = 0; j < o->kind->n_sizes && !code; j++)
        code = measure_size(m, o, j, p, link, err);
    if (!code) code = mo_share_finish(p, err);
    if (code && code != MOIRE_EINTERRUPTED) {
        mo_share_destroy(p);
        *out = NULL;
    }
    return code;
}

/* --- side by side --------------------------------------------------------------------------------------- */
/* Each side begins its next run as the last ends, until both have run often enough. */
static void done_again(void *ctx, int code, const char *message, const struct mo_gpu_times *times) {
    struct runner *r = ctx;
    moire_error err;
    note(r, code, message, times);
    if (!code) {
        r->ns[r->n++ % MOST] = times->compute_ns;
        if (r->n == r->want) atomic_fetch_sub(r->left, 1);
        if (atomic_load(r->left) > 0 && !(code = submit(r, done_again, &err))) return;
        if (code) note(r, code, err.message, NULL);
    }
    if (code) atomic_store(r->left, 0);
    wake(r);
}

int mo_measure_pair(struct mo_measure_side side[2], int repetitions, moire_error *err) {
    const struct mo_gpu_device *d = side[0].model->device;
    const struct mo_sys *sys = d->env->sys;
    struct runner r[2] = {{0}};
    _Atomic int left = 2;
    int code = MOIRE_OK, started = 0;
    for (int i = 0; i < 2 && !code; i++) {
        r[i].m = side[i].model;
        r[i].bucket = side[i].bucket;
        r[i].left = &left;
        r[i].want = repetitions < LEAST ? LEAST : repetitions > MOST / 2 ? MOST / 2 : repetitions;
        code =
            d->ops->let_open(d->system, side[i].model->gpu, side[i].first, side[i].units, 1, &r[i].let, err);
        if (!code) code = d->ops->prepare(r[i].m->loaded[r[i].bucket], r[i].let, err);
        if (!code) code = run_once(&r[i], err);
    }
    uint32_t seen[2] = {atomic_load(&r[0].doorbell), atomic_load(&r[1].doorbell)};
    for (; started < 2 && !code; started++)
        if ((code = submit(&r[started], done_again, err))) break;
    if (code) atomic_store(&left, 0);
    for (int i = 0; i < started; i++)
        while (atomic_load(&r[i].doorbell) == seen[i])
            sys->futex_wait(sys->self, &r[i].doorbell, seen[i], 0);
    for (int i = 0; i < 2; i++) {
        if (!code && r[i].code) code = mo_fail(err, r[i].code, "%s", r[i].message);
        if (!code) side[i].ns = median(r[i].ns, r[i].n < MOST ? r[i].n : MOST);
        d->ops->let_close(r[i].let);
    }
    return code;
}
