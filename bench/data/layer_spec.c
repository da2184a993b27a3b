/* SPDX-License-Identifier: Apache-2.0
 * layer_spec.c - layers in numbers; see layer_spec.h. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/data/layer_spec.h"
#include "runtime/base/text.h"
#include "variants/conv_geometry.h"

/* The integers of a spec in the order of the line. */
static const size_t fields[] = {
    offsetof(struct mo_layer_spec, product),  offsetof(struct mo_layer_spec, n),
    offsetof(struct mo_layer_spec, c),        offsetof(struct mo_layer_spec, h),
    offsetof(struct mo_layer_spec, w),        offsetof(struct mo_layer_spec, o),
    offsetof(struct mo_layer_spec, oh),       offsetof(struct mo_layer_spec, ow),
    offsetof(struct mo_layer_spec, kh),       offsetof(struct mo_layer_spec, kw),
    offsetof(struct mo_layer_spec, sh),       offsetof(struct mo_layer_spec, sw),
    offsetof(struct mo_layer_spec, dh),       offsetof(struct mo_layer_spec, dw),
    offsetof(struct mo_layer_spec, pt),       offsetof(struct mo_layer_spec, pl),
    offsetof(struct mo_layer_spec, pb),       offsetof(struct mo_layer_spec, pr),
    offsetof(struct mo_layer_spec, groups),   offsetof(struct mo_layer_spec, bias),
    offsetof(struct mo_layer_spec, residual), offsetof(struct mo_layer_spec, residual_last),
    offsetof(struct mo_layer_spec, act)};

enum { FIELDS = sizeof fields / sizeof *fields };

static bool is_conv(const struct mo_graph *graph, const struct mo_node *node, struct mo_layer_spec *s) {
    struct mo_conv c;
    if (strcmp(node->op_type, "Conv") != 0 || !mo_conv_read(graph, node, &c)) return false;
    *s = (struct mo_layer_spec){.n = c.n, .c = c.c, .h = c.h, .w = c.w, .o = c.o, .oh = c.oh, .ow = c.ow};
    s->kh = c.kh, s->kw = c.kw, s->sh = c.sh, s->sw = c.sw, s->dh = c.dh, s->dw = c.dw;
    s->pt = c.pt, s->pl = c.pl, s->pb = c.pb, s->pr = c.pr;
    s->groups = mo_attr_int(node, "group", 1); /* the model's: mo_conv merges narrow ones */
    return true;
}

/* A left operand of any rank times a constant matrix. */
static bool is_product(const struct mo_graph *graph, const struct mo_node *node, struct mo_layer_spec *s) {
    if (strcmp(node->op_type, "MatMul") != 0 && strcmp(node->op_type, "Gemm") != 0) return false;
    if (mo_attr_int(node, "transA", 0) || node->in[0] < 0 || node->in[1] < 0 || node->out[0] < 0)
        return false;
    const struct mo_shape *a = &graph->tensors[node->in[0]]->shape, *b = &graph->tensors[node->in[1]]->shape;
    const struct mo_shape *y = &graph->tensors[node->out[0]]->shape;
    const int64_t all = mo_shape_count(a);
    if (a->rank < 1 || b->rank != 2 || y->rank < 1 || all < 1 || mo_shape_count(y) < 1) return false;
    *s = (struct mo_layer_spec){.product = 1, .n = 1, .h = 1, .oh = 1, .groups = 1};
    s->kh = s->kw = s->sh = s->sw = s->dh = s->dw = 1;
    s->c = a->d[a->rank - 1];
    s->w = s->ow = all / s->c;
    s->o = y->d[y->rank - 1];
    return true;
}

bool mo_layer_spec_of(const struct mo_graph *graph, const struct mo_node *node, struct mo_layer_spec *out) {
    if (node->n_in < 2 || node->n_out < 1) return false;
    if (!is_conv(graph, node, out) && !is_product(graph, node, out)) return false;
    out->bias = node->n_in > 2 && node->in[2] >= 0 && node->fuse.residual != 2;
    out->residual = node->fuse.residual >= 0;
    out->residual_last = node->fuse.residual_last;
    out->act = (int64_t)node->fuse.act;
    out->a = (double)node->fuse.a;
    out->b = (double)node->fuse.b;
    return true;
}

void mo_layer_spec_print(const struct mo_layer_spec *spec, char *out, size_t n) {
    struct mo_text t = mo_text_in(out, n);
    for (size_t i = 0; i < FIELDS; i++) {
        int64_t value;
        memcpy(&value, (const char *)spec + fields[i], sizeof value);
        mo_text_put(&t, "%" PRId64 " ", value);
    }
    mo_text_put(&t, "%.9g %.9g", spec->a, spec->b);
}

bool mo_layer_spec_parse(const char *text, struct mo_layer_spec *out) {
    *out = (struct mo_layer_spec){0};
    char *at = (char *)text, *end;
    for (size_t i = 0; i < FIELDS; i++, at = end) {
        errno = 0;
        int64_t value = strtoll(at, &end, 10);
        if (end == at || errno || value < 0 || value > INT32_MAX) return false;
        memcpy((char *)out + fields[i], &value, sizeof value);
    }
    out->a = strtod(at, &end);
    if (end == at) return false;
    out->b = strtod(at = end, &end);
    return end != at && !*end && out->groups > 0 && out->act < MO_ACT_COUNT;
}
