/* SPDX-License-Identifier: Apache-2.0
 * program_pack.c - a program as one piece of memory without pointers: for a process of its own, and for who
 * keeps a copy.
 *
 * Structures are copied as they are, for both sides are of one build; pointers become offsets, of which 0
 * (where the program itself lies) stands for NULL. */
#include <string.h>
#include "runtime/base/numbers.h"
#include "runtime/gpu/program.h"

enum { ALIGN = 64 };

/* base NULL: only counts. */
struct packer {
    char *base;
    size_t at;
};

static void *put(struct packer *p, const void *data, size_t bytes) {
    const size_t at = p->at;
    if (p->base && bytes) memcpy(p->base + at, data, bytes);
    p->at += mo_round_up_bytes(bytes, ALIGN);
    return (void *)at; /* an offset */
}

static const char *put_text(struct packer *p, const char *text) {
    return text ? put(p, text, strlen(text) + 1) : NULL;
}

static struct mo_gpu_port *put_ports(struct packer *p, const struct mo_gpu_port *ports, int n) {
    const size_t at = (size_t)put(p, ports, (size_t)n * sizeof *ports);
    struct mo_gpu_port *copy = p->base ? (struct mo_gpu_port *)(void *)(p->base + at) : NULL;
    for (int i = 0; i < n; i++) {
        const char *name = put_text(p, ports[i].name);
        if (copy) copy[i].name = name;
    }
    return (struct mo_gpu_port *)at;
}

static struct mo_gpu_op *put_ops(struct packer *p, const struct mo_gpu_op *ops, int n) {
    const size_t at = (size_t)put(p, ops, (size_t)n * sizeof *ops);
    struct mo_gpu_op *copy = p->base ? (struct mo_gpu_op *)(void *)(p->base + at) : NULL;
    for (int i = 0; i < n; i++) {
        const char *label = put_text(p, ops[i].label);
        const void *layer = NULL;
        if (ops[i].kind == MO_GPU_CORE) layer = put(p, ops[i].core.layer, (size_t)ops[i].core.layer_bytes);
        if (copy) copy[i].label = label;
        if (copy && layer) copy[i].core.layer = layer;
    }
    return (struct mo_gpu_op *)at;
}

static void put_program(struct packer *p, const struct mo_gpu_program *from, const int64_t *weight_at) {
    struct mo_gpu_program to = *from;
    put(p, from, sizeof *from);
    to.region = NULL;
    to.inputs = put_ports(p, from->inputs, from->inputs ? from->n_inputs : 0);
    to.outputs = put_ports(p, from->outputs, from->outputs ? from->n_outputs : 0);
    const size_t weights = (size_t)put(p, from->weights, (size_t)from->n_weights * sizeof *from->weights);
    to.weights = (struct mo_gpu_weight *)weights;
    to.kernels = put(p, from->kernels, (size_t)from->n_kernels * sizeof *from->kernels);
    to.ops = put_ops(p, from->ops, from->n_ops);
    to.segments =
        put(p, from->segments, from->segments ? (size_t)from->n_segments * sizeof *from->segments : 0);
    to.source = put_text(p, from->source);
    if (!p->base) return; /* only counted */
    struct mo_gpu_weight *w = (struct mo_gpu_weight *)(void *)(p->base + weights);
    for (int i = 0; i < from->n_weights; i++)
        w[i].data = weight_at ? (const void *)(uintptr_t)weight_at[i] : NULL;
    memcpy(p->base, &to, sizeof to);
}

size_t mo_gpu_packed_bytes(const struct mo_gpu_program *program) {
    struct packer p = {0};
    put_program(&p, program, NULL);
    return p.at;
}

void mo_gpu_pack(const struct mo_gpu_program *program, const int64_t *weight_at, void *out) {
    struct packer p = {.base = out};
    put_program(&p, program, weight_at);
}

static void *at(char *base, const void *offset) {
    return offset ? base + (size_t)offset : NULL;
}

struct mo_gpu_program *mo_gpu_unpack(void *packed) {
    char *base = packed;
    struct mo_gpu_program *p = packed;
    p->inputs = at(base, p->inputs);
    p->outputs = at(base, p->outputs);
    p->weights = at(base, p->weights);
    p->kernels = at(base, p->kernels);
    p->ops = at(base, p->ops);
    p->segments = at(base, p->segments);
    p->source = at(base, p->source);
    for (int i = 0; i < p->n_inputs; i++)
        p->inputs[i].name = at(base, p->inputs[i].name);
    for (int i = 0; i < p->n_outputs; i++)
        p->outputs[i].name = at(base, p->outputs[i].name);
    for (int i = 0; i < p->n_ops; i++) {
        p->ops[i].label = at(base, p->ops[i].label);
        if (p->ops[i].kind == MO_GPU_CORE) p->ops[i].core.layer = at(base, p->ops[i].core.layer);
    }
    return p;
}
