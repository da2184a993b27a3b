/* SPDX-License-Identifier: Apache-2.0
 * state.c - lowering in progress: errors, operations, kernels. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "runtime/gpu/lower/lower.h"

int mo_lower_fail(struct mo_lower *l, int code, const char *format, ...) {
    char text[300];
    va_list args;
    if (l->rc) return l->rc;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return l->rc = mo_fail(l->err, code, "%.160s: %s", l->label ? l->label : "the model", text);
}

static int no_memory(struct mo_lower *l) {
    return mo_lower_fail(l, MOIRE_ENOMEM, "out of memory");
}

bool mo_lower_grow(struct mo_lower *l, void *array, int n, int *cap, size_t size) {
    void **at = array;
    if (l->rc) return false;
    if (n < *cap) return true;
    int more = *cap ? 2 * *cap : 64;
    void *bigger = mo_region_array(l->program->region, (size_t)more, size);
    if (!bigger) return no_memory(l), false;
    if (n) memcpy(bigger, *at, (size_t)n * size);
    *at = bigger;
    *cap = more;
    return true;
}

struct mo_gpu_op *mo_lower_op(struct mo_lower *l, enum mo_gpu_op_kind kind) {
    struct mo_gpu_program *p = l->program;
    if (!mo_lower_grow(l, &p->ops, p->n_ops, &l->cap_ops, sizeof *p->ops)) return NULL;
    struct mo_gpu_op *op = &p->ops[p->n_ops++];
    *op = (struct mo_gpu_op){
        .kind = kind, .layer = l->node ? l->node->id : 0, .label = l->label, .launch = {.kernel = -1}};
    return op;
}

void mo_lower_use(struct mo_lower *l, struct mo_gpu_place place) {
    if (l->rc || place.space != MO_GPU_ARENA) return;
    struct mo_gpu_buffer *b = &l->buffers[place.index];
    int now = l->program->n_ops - 1;
    if (now > b->last) b->last = now;
    if (b->first > now) b->first = now;
}

static int find_kernel(const struct mo_lower *l, const struct mo_gpu_text *text,
                       const struct mo_gpu_kernel *like) {
    for (int i = 0; i < l->program->n_kernels; i++) {
        const struct mo_gpu_kernel *k = &l->program->kernels[i];
        if (k->text_bytes == text->n && !memcmp(l->source.at + k->text_at, text->at, text->n) &&
            !memcmp(k->grid, like->grid, sizeof k->grid) && !memcmp(k->block, like->block, sizeof k->block))
            return i;
    }
    return -1;
}

int mo_lower_kernel(struct mo_lower *l, struct mo_gpu_text *text, int64_t blocks_x, int64_t blocks_y,
                    int64_t blocks_z, unsigned threads) {
    struct mo_gpu_program *p = l->program;
    int found = -1;
    if (text->failed) no_memory(l);
    if (blocks_x > UINT32_MAX / threads || blocks_y > 65535 || blocks_z > 65535)
        mo_lower_fail(l, MOIRE_ELIMIT, "more blocks than a GPU takes; use a smaller batch");
    struct mo_gpu_kernel k = {.grid = {(unsigned)blocks_x, (unsigned)blocks_y, (unsigned)blocks_z},
                              .block = {threads, 1, 1}};
    if (!l->rc) found = find_kernel(l, text, &k);
    if (!l->rc && found < 0 &&
        mo_lower_grow(l, &p->kernels, p->n_kernels, &l->cap_kernels, sizeof *p->kernels)) {
        found = p->n_kernels++;
        snprintf(k.symbol, sizeof k.symbol, "mo_k%d", found);
        mo_gpu_printf(&l->source, "MO_KERNEL(%s, %u) ", k.symbol, threads);
        k.text_at = l->source.n;
        k.text_bytes = text->n;
        mo_gpu_printf(&l->source, "%s", text->at);
        p->kernels[found] = k;
        if (l->source.failed) no_memory(l);
    }
    mo_gpu_text_free(text);
    return l->rc ? -1 : found;
}

void mo_lower_launch(struct mo_lower *l, int kernel, const struct mo_gpu_place *args, int n_args,
                     int64_t flops) {
    struct mo_gpu_op *op = mo_lower_op(l, MO_GPU_KERNEL);
    if (!op) return;
    op->flops = flops;
    op->launch = (struct mo_gpu_launch){.kernel = kernel, .n_args = n_args};
    for (int i = 0; i < n_args; i++) {
        op->launch.args[i] = args[i];
        mo_lower_use(l, args[i]);
    }
}
