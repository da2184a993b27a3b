/* SPDX-License-Identifier: Apache-2.0
 * family.h - kernel families of the generator (contract 5): which layers a family takes, its search points,
 * their predicted cost, and the C it emits.  Adding a family = one file + one row in emit_families.c.
 *
 * Emitted C is standalone and header-free (vector extensions and, for AVX-512/AVX2, one asm template for the
 * FMA), compiles with gcc and clang, and contains no byte of the model: names come from the layer's shape. */
#ifndef MO_EMIT_FAMILY_H
#define MO_EMIT_FAMILY_H
#include <stdio.h>
#include <string.h>
#include "variants/kernel.h"

/* One layer as the generator sees it: everything static that may shape the code. */
struct mo_problem {
    char signature[256]; /* mo_layer_signature() */
    enum mo_isa isa;
    int64_t n, c, h, w, o, oh, ow; /* images, channels and extents in and out; GEMM: h = 1, w = rows */
    int64_t x_row,
        y_row; /* GEMM: elements from row to row, in and out (residual too): c and o unless sliced */
    int kh, kw, sh, sw, dh, dw; /* kernel, stride, dilation */
    int pt, pl, pb, pr;         /* pads */
    int groups;                 /* of whole blocks where they can be merged to such */
    int own_groups;             /* as the model has them */
    bool rest;                  /* the last of `groups` has fewer of those than the others */
    struct mo_fuse fuse; /* residual >= 0 means: there is one, in C16 layout; gated: 1x1, all of it in C16 */
    enum mo_layout in_layout, out_layout;
    bool exact;      /* of the graph: no point whose algorithm only approximates the sum of products */
    int cores;       /* that the layer may get, 0 = 1: points that cannot feed them get company that can */
    enum mo_dot dot; /* of 8-bit numbers (moire.QConv): what multiplies them; MO_DOT_NONE: of floats */
    moire_dtype to;  /* their output */
    bool fills;      /* their pads hold a zero point that is not 0 */
};

enum { MO_KNOBS = 10, MO_MAX_POINTS = 64 };

/* One candidate implementation. */
struct mo_point {
    int knob[MO_KNOBS]; /* meaning is the family's; names in mo_emit_family.knobs */
    double cost_ns;     /* predicted by the cost model on one core, for ranking */
    enum mo_packing packing;
    int64_t units;  /* independent pieces */
    double part_ns; /* predicted for the core with most to do when problem->cores split the units */
    bool wide;      /* listed for its part_ns: better points of its packing have fewer units than cores */
};

struct mo_emit_family {
    const char *name;            /* "direct", "grouped", "pointwise", "depthwise", ... */
    const char *knobs[MO_KNOBS]; /* names, NULL past the last */
    bool (*takes)(const struct mo_problem *problem);
    /* Fills points in order of predicted cost, returns their number (0 = none legal). */
    int (*points)(const struct mo_problem *problem, struct mo_point *points, int cap);
    /* Writes the C of one point; the object exports `const struct mo_variant mo_variant` (kernel.h). */
    int (*emit)(const struct mo_problem *problem, const struct mo_point *point, FILE *out, moire_error *err);
};

/* A list of n points without that at `at`, or with `point` there, the last one making room when it is full:
 * how many it has then. */
static inline int mo_points_drop(struct mo_point *points, int n, int at) {
    memmove(points + at, points + at + 1, (size_t)(n - 1 - at) * sizeof *points);
    return n - 1;
}
static inline int mo_points_put(struct mo_point *points, int n, int cap, int at,
                                const struct mo_point *point) {
    if (at >= cap) return n;
    if (n < cap) n++;
    memmove(points + at + 1, points + at, (size_t)(n - 1 - at) * sizeof *points);
    points[at] = *point;
    return n;
}

const struct mo_emit_family *const *mo_emit_families(void); /* NULL-terminated */
/* Fills a problem from a layer of a graph whose layouts are final; false when no family could take it. */
bool mo_problem_from_node(const struct mo_graph *graph, const struct mo_node *node, enum mo_isa isa,
                          struct mo_problem *out);
/* The same for a machine of the level that multiplies bytes by `dot`, whatever this one has. */
bool mo_problem_for_dot(const struct mo_graph *graph, const struct mo_node *node, enum mo_isa isa,
                        enum mo_dot dot, struct mo_problem *out);
/* A matrix unit runs the layer: built-in kernels on it are several times as fast as what families emit for
 * 8-bit numbers, and so much faster for some layers of float32 that none of those need be tried. */
bool mo_problem_on_unit(const struct mo_graph *graph, const struct mo_node *node,
                        const struct mo_problem *problem, enum mo_units units);
#endif
