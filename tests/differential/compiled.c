/* SPDX-License-Identifier: Apache-2.0
 * compiled.c - compiled kernels for the layers of one graph; see compiled.h. */
#define _GNU_SOURCE
#include "tests/differential/compiled.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "codegen/search/cc.h"
#include "runtime/base/sha256.h"
#include "runtime/base/trusted.h"

/* All points of all families that take the layer; one of a random family. */
static bool choose(const struct mo_problem *p, const char *only, struct dt_random *random,
                   struct dt_kernel *k) {
    struct mo_point *points = malloc(MO_MAX_POINTS * sizeof *points);
    const struct mo_emit_family *const *families = mo_emit_families(), *takers[16];
    int n = 0, count = 0;
    for (int i = 0; families[i] && n < 16; i++)
        if ((!only || !strcmp(only, families[i]->name)) && families[i]->takes(p)) takers[n++] = families[i];
    for (int tries = 0; n && points && count < 1 && tries < 8; tries++) {
        k->family = takers[dt_pick(random, n)];
        count = k->family->points(p, points, MO_MAX_POINTS);
        if (count > 0) k->point = points[dt_pick(random, count)];
    }
    free(points);
    return count > 0;
}

/* Every `from` becomes `to`; the text is the caller's to free. */
static char *replace(struct dt_compiled *c, char *text) {
    size_t n = strlen(text), from = strlen(c->from), to = strlen(c->to), extra = to > from ? to - from : 0;
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, c->from)); at += from)
        count++;
    char *out = malloc(n + count * extra + 1), *end = out;
    if (!out) abort();
    const char *rest = text;
    for (const char *at; (at = strstr(rest, c->from)); rest = at + from) {
        memcpy(end, rest, (size_t)(at - rest));
        end += at - rest;
        memcpy(end, c->to, to);
        end += to;
    }
    memcpy(end, rest, strlen(rest) + 1);
    c->replaced += (int)count;
    free(text);
    return out;
}

static int emit(struct dt_compiled *c, const struct mo_problem *p, const struct dt_kernel *k, char **text,
                moire_error *err) {
    size_t n;
    FILE *out = open_memstream(text, &n);
    if (!out) abort();
    int rc = k->family->emit(p, &k->point, out, err);
    fclose(out);
    if (!rc && c->from) *text = replace(c, *text);
    return rc;
}

static int compile(struct dt_compiled *c, enum mo_isa isa, const char *stem, const char *text,
                   moire_error *err) {
    struct mo_cc cc = {.program = "gcc"};
    char path[700], made[700];
    snprintf(path, sizeof path, "%s.c", stem);
    FILE *f = fopen(path, "w");
    if (!f) return mo_fail(err, MOIRE_EIO, "cannot write '%.300s'", path);
    fputs(text, f);
    fclose(f);
    int rc = mo_cc_compile(c->env, &cc, isa, stem, 0, err);
    snprintf(made, sizeof made, "%s.log", stem);
    unlink(made);
    if (!rc) unlink(path);
    c->compiled++;
    return rc;
}

static int load(struct dt_compiled *c, const char *object, struct dt_kernel *k, moire_error *err) {
    const struct mo_sys *sys = c->env->sys;
    char reason[200];
    k->code = sys->dl_open(sys->self, object, reason, sizeof reason);
    const struct mo_variant *v = k->code ? sys->dl_sym(sys->self, k->code, "mo_variant") : NULL;
    if (!v) return mo_fail(err, MOIRE_EFAILED, "cannot load '%.300s'", object);
    k->variant = *v;
    return MOIRE_OK;
}

static int make(struct dt_compiled *c, const struct mo_problem *p, struct dt_kernel *k, moire_error *err) {
    char *text = NULL, hex[MO_SHA256_HEX], stem[600], object[640];
    int rc = emit(c, p, k, &text, err);
    if (!rc) {
        mo_sha256_hex(text, strlen(text), hex);
        snprintf(stem, sizeof stem, "%s/%.40s-%s", c->folder, hex, mo_isa_name(p->isa));
        snprintf(object, sizeof object, "%s.so", stem);
        if (access(object, R_OK))
            rc = compile(c, p->isa, stem, text, err);
        else
            c->reused++;
    }
    free(text);
    return rc ? rc : load(c, object, k, err);
}

int dt_compile(struct dt_compiled *c, const struct mo_graph *graph, enum mo_isa isa, struct dt_random *random,
               moire_error *err) {
    struct mo_problem p;
    int rc = MOIRE_OK;
    int first = graph->n_nodes ? dt_pick(random, graph->n_nodes) : 0, most = c->most ? c->most : DT_COMPILED;
    for (int j = 0; !rc && j < graph->n_nodes && c->n < most; j++) {
        int i = (first + j) % graph->n_nodes;
        struct dt_kernel *k = &c->kernel[c->n];
        struct mo_variant known;
        if (!mo_problem_from_node(graph, graph->nodes[i], isa, &p)) continue;
        if (dt_compiled_find(c, p.signature, &known)) continue;
        *k = (struct dt_kernel){0};
        snprintf(k->signature, sizeof k->signature, "%s", p.signature);
        if (!choose(&p, c->family, random, k)) continue;
        rc = make(c, &p, k, err);
        if (!rc) c->n++;
    }
    return rc;
}

void dt_compiled_unload(struct dt_compiled *c) {
    for (int i = 0; i < c->n; i++)
        c->env->sys->dl_close(c->env->sys->self, c->kernel[i].code);
    c->n = 0;
}

bool dt_compiled_find(void *ctx, const char *signature, struct mo_variant *out) {
    const struct dt_compiled *c = ctx;
    for (int i = 0; i < c->n; i++) {
        if (strcmp(c->kernel[i].signature, signature)) continue;
        *out = c->kernel[i].variant;
        return true;
    }
    return false;
}
