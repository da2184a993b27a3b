/* SPDX-License-Identifier: Apache-2.0
 * fault.c - the table of deliberate faults in what kernels are given and leave; see fault.h.  What a fault
 * needs: a layer with several images whose tensor is a slice, or padding lanes, or more than one unit. */
#include "tests/differential/fault.h"

#include <math.h>
#include <string.h>
#include "variants/kernel.h"

static const struct mo_tensor *tensor_of(const struct dt_layer *l, int id) {
    return id < 0 ? NULL : l->graph->tensors[id];
}

static const struct mo_tensor *in(const struct dt_layer *l) {
    const struct mo_tensor *t = l->step->node->n_in ? tensor_of(l, l->step->node->in[0]) : NULL;
    return t && !t->data && t->dtype == MOIRE_F32 ? t : NULL;
}

static const struct mo_tensor *out(const struct dt_layer *l) {
    return tensor_of(l, l->step->node->out[0]);
}

static bool has_images(const struct mo_tensor *t) {
    return t && t->shape.rank > 1 && t->shape.d[0] > 1;
}

/* Steps over images as if the tensor were not a slice of a larger one. */
static bool ignore(const struct mo_tensor *t, int64_t *image) {
    if (!has_images(t) || *image == mo_tensor_image_bytes(t)) return false;
    *image = mo_tensor_image_bytes(t);
    return true;
}

static bool ignore_in_image(struct dt_layer *l) {
    return ignore(in(l), &l->args.in_image[0]);
}

static bool ignore_out_image(struct dt_layer *l) {
    return ignore(out(l), &l->args.out_image[0]);
}

/* Products without slices take the step from their params. */
static bool ignore_residual_image(struct dt_layer *l) {
    int residual = l->step->node->fuse.residual;
    return residual >= 0 && l->args.residual && !strcmp(l->step->node->op_type, "Conv") &&
           ignore(tensor_of(l, l->step->node->in[residual]), &l->args.residual_image);
}

static bool first_image_only(struct dt_layer *l) {
    if (!has_images(in(l)) || !has_images(out(l))) return false;
    l->args.in_image[0] = 0;
    return true;
}

static bool last_unit_missing(struct dt_layer *l) {
    if (l->units < 2) return false;
    l->units--;
    return true;
}

static bool not_run(struct dt_layer *l) {
    l->units = 0;
    return true;
}

static bool input_late(struct dt_layer *l) {
    if (!in(l)) return false;
    l->args.in[0] = (const char *)l->args.in[0] + sizeof(float);
    return true;
}

/* Output of a slice written 64 bytes behind its place. */
static bool output_late(struct dt_layer *l) {
    if (!out(l) || out(l)->alias < 0) return false;
    l->args.out[0] = (char *)l->args.out[0] + 64;
    return true;
}

static bool no_bias(struct dt_layer *l) {
    static const float zeros[4096];
    const struct mo_tensor *y = out(l);
    if (!l->args.bias || !y || y->shape.rank < 2) return false;
    int64_t n = y->shape.d[1] > y->shape.d[y->shape.rank - 1] ? y->shape.d[1] : y->shape.d[y->shape.rank - 1];
    bool any = false;
    for (int i = 0; i < 4; i++)
        any |= l->args.bias[i] != 0;
    if (n > 4000 || !any) return false;
    l->args.bias = zeros;
    return true;
}

/* Lanes beyond the channels hold NaN instead of finite values. */
static bool bad_lanes(struct dt_layer *l) {
    const struct mo_tensor *y = out(l);
    if (!y || y->layout != MO_C16 || y->shape.d[1] % 16 == 0) return false;
    int64_t used = y->shape.d[1] % 16, block = y->shape.d[1] / 16, area = 1;
    for (int i = 2; i < y->shape.rank; i++)
        area *= y->shape.d[i];
    for (int64_t n = 0; n < y->shape.d[0]; n++)
        for (int64_t p = 0; p < area; p++)
            for (int64_t lane = used; lane < 16; lane++)
                ((float *)((char *)l->args.out[0] +
                           n * l->args.out_image[0]))[(block * area + p) * 16 + lane] = NAN;
    return true;
}

/* One element more than the output has. */
static bool one_too_many(struct dt_layer *l) {
    const struct mo_tensor *y = out(l);
    int64_t images = y && y->shape.rank ? y->shape.d[0] : 1;
    if (!y || y->dtype != MOIRE_F32) return false;
    char *end = (char *)l->args.out[0] + (images - 1) * l->args.out_image[0] + mo_tensor_image_bytes(y);
    float x = 1e6f;
    memcpy(end, &x, sizeof x);
    return true;
}

/* A wrong tap at the corner of a convolution, as small as it may ever be: one element off by a thousandth. */
static bool one_element(struct dt_layer *l) {
    const struct mo_tensor *y = out(l);
    if (strcmp(l->step->node->op_type, "Conv") || !y || y->dtype != MOIRE_F32) return false;
    float *x = (float *)((char *)l->args.out[0] + (y->shape.d[0] - 1) * l->args.out_image[0]);
    *x += 1e-3f * (fabsf(*x) + 0.5f);
    return true;
}

const struct dt_fault dt_faults[] = {
    {"in-image", "ignores the step from one input image to the next", ignore_in_image, NULL},
    {"out-image", "ignores the step from one output image to the next", ignore_out_image, NULL},
    {"residual-image", "ignores the step from one residual image to the next", ignore_residual_image, NULL},
    {"first-image", "computes every image from the first", first_image_only, NULL},
    {"last-unit", "leaves the last unit out: old memory of the arena is the answer", last_unit_missing, NULL},
    {"not-run", "does not run: old memory of the arena is the answer", not_run, NULL},
    {"input-late", "reads its input one element late", input_late, NULL},
    {"output-late", "writes a slice 64 bytes late", output_late, NULL},
    {"no-bias", "forgets the bias", no_bias, NULL},
    {"bad-lanes", "leaves NaN in padding lanes", NULL, bad_lanes},
    {"one-too-many", "writes one element too many", NULL, one_too_many},
    {"one-element", "has one element of a convolution wrong by a thousandth", NULL, one_element},
    {0},
};
