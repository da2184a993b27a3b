/* SPDX-License-Identifier: Apache-2.0
 * emit.c - `cross-emit FOLDER LEVEL`: writes the kernels of cases.h for an ISA level, k<i>.c each with its
 * descriptor as mo_variant_<i>, and kernels.c, the table of them that test_emitted.c reads. */
#include <stdio.h>
#include <string.h>
#include "codegen/family/family.h"
#include "codegen/family/walk.h"
#include "tests/cross/cases.h"

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

static bool emit_case(const struct cross_case *row, enum mo_isa isa, const char *folder, int first) {
    struct cross_layer layer;
    struct mo_problem p;
    struct mo_point points[MO_MAX_POINTS];
    const struct mo_emit_family *family = family_named(row->family);
    cross_open(&layer, row);
    bool ok = family && mo_problem_from_node(layer.graph, layer.node, isa, &p) && family->takes(&p);
    int n = ok ? family->points(&p, points, MO_MAX_POINTS) : 0;
    if (n < 1) fprintf(stderr, "case %d: family %s has no point\n", first / CROSS_POINTS, row->family);
    for (int i = 0; n > 0 && ok && i < CROSS_POINTS; i++) {
        struct mo_point point = points[i * (n - 1) / (CROSS_POINTS - 1)];
        if (row->parts) point.knob[MO_KNOB_PARTS] = row->parts;
        ok = emit_point(family, &p, &point, folder, first + i);
    }
    cross_close(&layer);
    return ok && n > 0;
}

static bool emit_table(const char *folder, int n) {
    char path[400];
    snprintf(path, sizeof path, "%s/kernels.c", folder);
    FILE *out = fopen(path, "w");
    if (!out) return false;
    fputs("#include \"tests/cross/kernels.h\"\n", out);
    for (int i = 0; i < n; i++)
        fprintf(out, "extern const struct mo_variant mo_variant_%d;\n", i);
    fputs("const struct mo_variant *const cross_kernels[] = {\n", out);
    for (int i = 0; i < n; i++)
        fprintf(out, "    &mo_variant_%d,\n", i);
    fputs("};\n", out);
    return !fclose(out);
}

int main(int argc, char **argv) {
    int isa = 0;
    while (argc == 3 && isa < MO_ISA_COUNT && strcmp(argv[2], mo_isa_name((enum mo_isa)isa)))
        isa++;
    if (argc != 3 || isa == MO_ISA_COUNT) {
        fprintf(stderr, "usage: cross-emit FOLDER LEVEL\n");
        return 2;
    }
    for (int i = 0; i < cross_n_cases; i++)
        if (!emit_case(&cross_cases[i], (enum mo_isa)isa, argv[1], i * CROSS_POINTS)) return 1;
    return emit_table(argv[1], cross_n_cases * CROSS_POINTS) ? 0 : 1;
}
