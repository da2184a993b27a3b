/* SPDX-License-Identifier: Apache-2.0
 * exec_recall.c - choices of kernels, kept for the next process.
 *
 * They depend on the program, the GPU's name, the SMs of the let, and the versions of driver and libraries:
 * these are their name.  What is read back is asked of the libraries once more, and chosen anew where they
 * refuse. */
#include <string.h>
#include "runtime/gpu/cuda/exec.h"

static const char suffix[] = MO_CUDA_CACHE_CHOICE;

/* --- names ---------------------------------------------------------------------------------------------- */
/* What its library is told of an operation, but for a product's factor and for addresses, which are aligned
 * to 16 bytes at least. */
enum { NUMBERS = 20 };
struct sizes {
    int64_t of[NUMBERS];
};

static struct sizes sizes_of(const struct mo_gpu_op *op) {
    const struct mo_gpu_conv *c = &op->conv;
    const struct mo_gpu_gemm *g = &op->gemm;
    if (op->kind == MO_GPU_CONV)
        return (struct sizes){{c->n, c->h, c->w, c->c, c->k, c->r, c->s, c->oh, c->ow, c->groups, c->pad[0],
                               c->pad[1], c->stride[0], c->stride[1], c->dilation[0], c->dilation[1], c->act,
                               c->bias.space != MO_GPU_NONE, c->residual.space != MO_GPU_NONE}};
    return (struct sizes){{g->count, g->m, g->n, g->k, g->transposed, g->act, g->a.row, g->a.step, g->b.row,
                           g->b.step, g->c.row, g->c.step, g->d.row, g->d.step, g->bias.space != MO_GPU_NONE,
                           g->c.at.space != MO_GPU_NONE}};
}

bool mo_exec_alike(const struct mo_gpu_op *a, const struct mo_gpu_op *b) {
    if (a->kind != b->kind || !mo_gpu_has_library(a)) return false;
    const struct sizes of_a = sizes_of(a), of_b = sizes_of(b);
    return !memcmp(&of_a, &of_b, sizeof of_a) && (a->kind == MO_GPU_CONV || a->gemm.alpha == b->gemm.alpha);
}

/* Without the source: that is in the name of its code. */
static void add_program(struct mo_sha256 *sum, const struct mo_gpu_program *p) {
    mo_cuda_cache_add_number(sum, p->precision);
    mo_cuda_cache_add_number(sum, p->n_ops);
    for (int i = 0; i < p->n_ops; i++) {
        const struct mo_gpu_op *op = &p->ops[i];
        mo_cuda_cache_add_number(sum, op->kind);
        mo_cuda_cache_add_number(sum, op->launch.kernel);
        if (!mo_gpu_has_library(op)) continue;
        const struct sizes sizes = sizes_of(op);
        mo_cuda_cache_add(sum, &sizes, sizeof sizes);
        if (op->kind == MO_GPU_GEMM) mo_cuda_cache_add(sum, &op->gemm.alpha, sizeof op->gemm.alpha);
    }
}

static void name_of(const struct mo_gpu_loaded *l, int sms, char name[MO_SHA256_HEX]) {
    const struct mo_cuda_exec *e = l->exec;
    const struct mo_cuda_exec_config *c = &e->config;
    struct mo_sha256 sum;
    const int64_t numbers[] = {c->driver_level,
                               e->has_dnn ? (int64_t)e->dnn.version : 0,
                               e->has_blas ? (int64_t)e->blas.version : 0,
                               c->sms,
                               sms,
                               (int64_t)mo_exec_space(e)};
    mo_cuda_rtc_name(&e->rtc, l->program.source, c->major, c->minor, name);
    mo_sha256_init(&sum);
    mo_cuda_cache_add(&sum, name, MO_SHA256_HEX);
    mo_cuda_cache_add(&sum, c->gpu ? c->gpu : "", c->gpu ? strlen(c->gpu) : 0);
    mo_cuda_cache_add(&sum, numbers, sizeof numbers);
    add_program(&sum, &l->program);
    mo_sha256_end_hex(&sum, name);
}

/* --- reading and writing -------------------------------------------------------------------------------- */
static bool find(const struct mo_gpu_loaded *l, int sms, struct mo_exec_recall *out) {
    char name[MO_SHA256_HEX];
    name_of(l, sms, name);
    if (!mo_cuda_cache_find(l->exec->cache, name, suffix, &out->cached)) return false;
    if (out->cached.n != (size_t)l->program.n_ops * sizeof *out->record)
        mo_cuda_cache_give_back(l->exec->cache, &out->cached);
    out->record = out->cached.bytes;
    return out->record != NULL;
}

void mo_exec_recall_begin(const struct mo_gpu_loaded *l, int sms, struct mo_exec_recall *out) {
    const int unit = l->exec->config.unit_sms;
    *out = (struct mo_exec_recall){0};
    if (!l->exec->cache) return;
    name_of(l, sms, out->name);
    if (find(l, sms, out) || unit < 1 || sms == l->exec->config.sms) return;
    out->of_another = true;
    for (int away = unit; 2 * away <= sms; away += unit)
        if ((2 * sms <= 3 * (sms - away) && find(l, sms - away, out)) || find(l, sms + away, out)) return;
    out->of_another = false;
}

struct mo_exec_record mo_exec_record_of(const struct mo_exec_choice *c) {
    struct mo_exec_record r = {.way = c->way, .timed = c->timed};
    if (c->way == MO_GPU_BY_DNN) {
        const struct mo_dnn_way *way = &c->dnn.list[c->dnn.chosen];
        r.algorithm = way->algorithm;
        r.fused = way->fused;
        r.space = way->space;
    }
    if (c->way == MO_GPU_BY_BLAS) r.blas = c->blas.list[c->blas.chosen].algorithm;
    return r;
}

bool mo_exec_choose_as(const struct mo_exec_trial *t, const struct mo_exec_record *r, int index,
                       struct mo_exec_choice *out) {
    const struct mo_gpu_loaded *l = t->loaded;
    const struct mo_cuda_exec *e = l->exec;
    const struct mo_gpu_op *op = &l->program.ops[index];
    const size_t space = mo_exec_space(e);
    int rc = MOIRE_EUNSUPPORTED;
    out->timed = r->timed != 0;
    if (r->way == MO_GPU_BY_KERNEL) return op->launch.kernel >= 0;
    if (r->way == MO_GPU_BY_DNN && op->kind == MO_GPU_CONV && e->has_dnn && r->space <= space) {
        const struct mo_dnn_operands o = mo_exec_conv_operands(l, &op->conv, t->arena);
        const struct mo_dnn_way way = {r->algorithm, r->fused != 0, (size_t)r->space};
        rc = mo_cuda_dnn_plan_as(&e->dnn, &op->conv, l->program.precision, &o, &way, t->stream, &out->dnn,
                                 NULL);
    }
    if (r->way == MO_GPU_BY_BLAS && op->kind == MO_GPU_GEMM && e->has_blas)
        rc = mo_cuda_blas_plan_as(&e->blas, &op->gemm, l->program.precision, t->sms, space, &r->blas,
                                  &out->blas, NULL);
    if (!rc) out->way = (enum mo_gpu_way)r->way;
    return !rc;
}

void mo_exec_remember(const struct mo_gpu_loaded *l, const struct mo_exec_recall *recall,
                      const struct mo_exec_choices *choices) {
    const size_t bytes = (size_t)l->program.n_ops * sizeof(struct mo_exec_record);
    struct mo_exec_record *record = l->exec->cache && bytes ? mo_alloc(l->exec->env, bytes) : NULL;
    if (!record) return;
    for (int i = 0; i < l->program.n_ops; i++)
        record[i] = mo_exec_record_of(&choices->of[i]);
    mo_cuda_cache_put(l->exec->cache, recall->name, suffix, record, bytes);
    mo_free(l->exec->env, record);
}
