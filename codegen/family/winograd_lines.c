/* SPDX-License-Identifier: Apache-2.0
 * winograd_lines.c - one dimension of the input and output transforms as straight vector code, from the
 * matrices.
 *
 * Rows 2k+1 and 2k+2 of BT belong to the points +p and -p: their even coefficients are equal, their odd ones
 * opposite, so the two sums are computed once and added and subtracted.  The same holds for the columns of
 * AT. */
#include <math.h>
#include "codegen/family/winograd.h"

enum { MAX_TERMS = MO_WINO_ALPHA };

/* A sum of terms coefficient * name<index>. */
struct sum {
    int n;
    struct {
        double factor;
        const char *name;
        int index;
    } term[MAX_TERMS];
};

static bool is_zero(double x) {
    return fabs(x) < 1e-12;
}

static void add(struct sum *s, double factor, const char *name, int index) {
    if (is_zero(factor)) return;
    s->term[s->n].factor = factor;
    s->term[s->n].name = name;
    s->term[s->n++].index = index;
}

/* Terms with factor 1 come first: the others then become multiply-adds. */
static void print_sum(FILE *out, const struct sum *s) {
    int printed = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < s->n; i++) {
            float f = (float)s->term[i].factor;
            if ((f == 1) != !pass) continue;
            if (printed++) fputs(f < 0 ? " - " : " + ", out);
            if (printed == 1 && f < 0) fputs("-", out);
            if (fabsf(f) != 1) {
                fputs("splat(", out);
                mo_emit_float(out, fabsf(f));
                fputs(") * ", out);
            }
            fprintf(out, "%s%d", s->term[i].name, s->term[i].index);
        }
}

static void print_assignment(FILE *out, const char *name, int index, const struct sum *s) {
    fprintf(out, "    v %s%d = ", name, index);
    print_sum(out, s);
    fputs(";\n", out);
}

/* Whether row i belongs to one of two points +-p: not those of 0, of infinity, and of odd pixels. */
static bool is_paired(const struct mo_winograd *w, int i) {
    return i >= 1 && i < w->points - w->infinity;
}

/* The variables y0, y1 ..: BT d. */
static void emit_input_sums(FILE *out, const struct mo_winograd *w) {
    for (int i = 0; i < w->alpha; i++)
        fprintf(out, "    v d%d = load(x + %d * dx);\n", i, i);
    for (int i = 0; i < w->alpha; i++) {
        struct sum s = {0};
        if (is_paired(w, i)) continue;
        for (int j = 0; j < w->alpha; j++)
            add(&s, w->bt[i][j], "d", j);
        print_assignment(out, "y", i, &s);
    }
    for (int i = 1; is_paired(w, i); i += 2) {
        struct sum even = {0}, odd = {0};
        double scale = 0;
        for (int j = 0; j < w->alpha; j++) {
            double o = (w->bt[i][j] - w->bt[i + 1][j]) / 2;
            add(&even, (w->bt[i][j] + w->bt[i + 1][j]) / 2, "d", j);
            if (!is_zero(o)) scale = o;
        }
        for (int j = 0; j < w->alpha; j++)
            add(&odd, (w->bt[i][j] - w->bt[i + 1][j]) / 2 / scale, "d", j);
        print_assignment(out, "e", i, &even);
        print_assignment(out, "o", i, &odd);
        for (int k = 0; k < 2; k++) {
            struct sum s = {0};
            add(&s, 1, "e", i);
            add(&s, k ? -scale : scale, "o", i);
            print_assignment(out, "y", i + k, &s);
        }
    }
}

/* y = BT x for vectors dx apart, stored dy apart. */
static void emit_input_line(FILE *out, const struct mo_winograd *w, const char *way) {
    fprintf(out, "INLINE void input_%s%d(const char *x, i64 dx, char *y, i64 dy) {\n", way, w->m);
    emit_input_sums(out, w);
    for (int i = 0; i < w->alpha; i++)
        fprintf(out, "    store(y + %d * dy, y%d);\n", i, i);
    fputs("}\n", out);
}

/* The same to the columns of a row of planes: those that tails lack are elsewhere. */
static void emit_input_row(FILE *out, const struct mo_wino *w, const struct mo_winograd *m) {
    fprintf(out,
            "INLINE void input_across%d(const char *x, i64 dx, char *all, char *whole) {\n    (void)whole;\n",
            m->m);
    emit_input_sums(out, m);
    for (int i = 0; i < m->alpha; i++)
        fprintf(out, "    store(%s + %lld, y%d);\n", mo_wino_class(w, 0, m->of[i]) ? "whole" : "all",
                m->of[i] * (long long)w->v_plane, i);
    fputs("}\n", out);
}

/* y[k] = AT x, of vectors dx apart; of planes: those that the tile has. */
static void emit_output_line(FILE *out, const struct mo_winograd *w, const char *way, bool planes) {
    fprintf(out, "INLINE void output_%s%d(const char *x, i64 dx, v *y) {\n", way, w->m);
    for (int i = 0; i < w->alpha; i++)
        fprintf(out, "    v d%d = load(x + %d * dx);\n", i, planes ? w->of[i] : i);
    for (int i = 1; is_paired(w, i); i += 2) {
        fprintf(out, "    v e%d = d%d + d%d;\n", i, i, i + 1);
        if (w->m > 1) fprintf(out, "    v o%d = d%d - d%d;\n", i, i, i + 1);
    }
    for (int k = 0; k < w->m; k++) {
        struct sum s = {0};
        for (int i = 0; i < w->alpha; i += 1 + is_paired(w, i))
            add(&s, w->at[k][i], !is_paired(w, i) ? "d" : k % 2 ? "o" : "e", i);
        fprintf(out, "    y[%d] = ", k);
        print_sum(out, &s);
        fputs(";\n", out);
    }
    fputs("}\n\n", out);
}

void mo_wino_emit_lines(FILE *out, const struct mo_wino *w) {
    for (int tail = 0; tail < 2; tail++) {
        const struct mo_winograd *down = tail ? &w->down : &w->whole_down,
                                 *across = tail ? &w->across : &w->whole_across;
        if (!tail || down->m < w->whole_down.m) {
            emit_input_line(out, down, "down");
            emit_output_line(out, down, "down", true);
        }
        if (!tail || across->m < w->whole_across.m) {
            emit_input_row(out, w, across);
            emit_output_line(out, across, "across", false);
        }
    }
}
