/* SPDX-License-Identifier: Apache-2.0
 * emit.c - `cross-emit FOLDER`: writes the kernels of cases.h and small_case.h for NEON, k<i>.c each with its
 * descriptor as mo_variant_<i>, and kernels.c, the tables of them that test_emitted.c and
 * test_emitted_small.c read. */
#include <stdio.h>
#include <string.h>
#include "codegen/family/family.h"
#include "codegen/family/walk.h"
#include "tests/cross/cases.h"
#include "tests/unit/generator/small_case.h"

static const struct mo_emit_family *family_named(const char *name) {
    const struct mo_emit_family *const *f = mo_emit_families();
    while (*f && strcmp((*f)->name, name))
        f++;
    return *f;
}

static bool emit_point(const struct mo_emit_family *family, const struct mo_problem *p,
                       const struct mo_point *point, const char *folder, int index) {
    char path[400];
    moire_error err = {0};
    snprintf(path, sizeof path, "%s/k%d.c", folder, index);
    FILE *out = fopen(path, "w");
    if (!out) {
        perror(path);
        return false;
    }
    fprintf(out, "#define mo_variant mo_variant_%d\n", index);
    bool ok = !family->emit(p, point, out, &err);
    ok = !fclose(out) && ok;
    if (!ok) fprintf(stderr, "%s: %s\n", p->signature, err.message);
    return ok;
}

/* CROSS_POINTS kernels of a layer, the first with index `first`; `parts` as in struct cross_case. */
static bool emit_layer(const char *name, const struct mo_problem *p, int parts, const char *folder,
                       int first) {
    struct mo_point points[MO_MAX_POINTS];
    const struct mo_emit_family *family = family_named(name);
    const int n = family && family->takes(p) ? family->points(p, points, MO_MAX_POINTS) : 0;
    bool ok = n > 0;
    if (!ok) fprintf(stderr, "%s: family %s has no point\n", p->signature, name);
    for (int i = 0; ok && i < CROSS_POINTS; i++) {
        struct mo_point point = points[i * (n - 1) / (CROSS_POINTS - 1)];
        if (parts) point.knob[MO_KNOB_PARTS] = parts;
        ok = emit_point(family, p, &point, folder, first + i);
    }
    return ok;
}

static bool emit_case(const struct cross_case *row, const char *folder, int first) {
    struct cross_layer layer;
    struct mo_problem p;
    cross_open(&layer, row);
    const bool ok = mo_problem_from_node(layer.graph, layer.node, MO_ISA_NEON, &p) &&
                    emit_layer(row->family, &p, row->parts, folder, first);
    cross_close(&layer);
    return ok;
}

static bool emit_small(const struct small_shape *shape, int set, const char *folder, int first) {
    const struct mo_env env = mo_env_default();
    struct mo_graph *graph = small_case_graph(&env, shape);
    struct mo_problem p;
    const enum mo_dot dot = (enum mo_dot)(MO_DOT_NEON + set);
    const bool ok = mo_problem_for_dot(graph, graph->nodes[0], MO_ISA_NEON, dot, &p) &&
                    emit_layer(shape->family, &p, 0, folder, first);
    mo_graph_destroy(graph);
    return ok;
}

static void put_table(FILE *out, const char *name, int begin, int end) {
    for (int i = begin; i < end; i++)
        fprintf(out, "extern const struct mo_variant mo_variant_%d;\n", i);
    fprintf(out, "const struct mo_variant *const %s[] = {\n", name);
    for (int i = begin; i < end; i++)
        fprintf(out, "    &mo_variant_%d,\n", i);
    fputs("};\n", out);
}

static bool emit_tables(const char *folder, int n, int n_small) {
    char path[400];
    snprintf(path, sizeof path, "%s/kernels.c", folder);
    FILE *out = fopen(path, "w");
    if (!out) return false;
    fputs("#include \"tests/cross/kernels.h\"\n", out);
    put_table(out, "cross_kernels", 0, n);
    put_table(out, "cross_small_kernels", n, n + n_small);
    return !fclose(out);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: cross-emit FOLDER\n");
        return 2;
    }
    const int n = cross_n_cases * CROSS_POINTS, each = CROSS_SETS * CROSS_POINTS;
    for (int i = 0; i < cross_n_cases; i++)
        if (!emit_case(&cross_cases[i], argv[1], i * CROSS_POINTS)) return 1;
    for (int i = 0; i < small_n_shapes; i++)
        for (int k = 0; k < CROSS_SETS; k++)
            if (!emit_small(&small_shapes[i], k, argv[1], n + i * each + k * CROSS_POINTS)) return 1;
    return emit_tables(argv[1], n, small_n_shapes * each) ? 0 : 1;
}
