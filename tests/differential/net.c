/* SPDX-License-Identifier: Apache-2.0
 * net.c - one case through every way of running it; see net.h. */
#include "tests/differential/net.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/frontend.h"
#include "runtime/ops/interpret.h"
#include "tests/differential/compiled.h"
#include "tests/differential/steps.h"

static void differs(struct dt_result *r, unsigned way, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void differs(struct dt_result *r, unsigned way, const char *format, ...) {
    va_list ap;
    if (r->verdict == DT_DIFFERS) return; /* the first counts */
    r->verdict = DT_DIFFERS;
    r->way = way;
    va_start(ap, format);
    vsnprintf(r->what, sizeof r->what, format, ap);
    va_end(ap);
}

/* How much the passes do to a graph. */
enum form { WHOLE, NO_LAYOUT, NO_PASSES };
static const char *const form_names[] = {"", " without layout", " without passes"};

/* One graph in six must not be computed by the faster algorithms; one in four computes in float32 throughout.
 */
static struct mo_graph *load(const struct dt_case *c, enum form form, moire_error *err) {
    struct mo_frontend_options options = {.no_layout = form == NO_LAYOUT,
                                          .no_passes = form == NO_PASSES,
                                          .exact = c->seed % 6 == 0,
                                          .precision =
                                              c->seed % 4 ? MOIRE_PRECISION_INT8 : MOIRE_PRECISION_FP32};
    struct mo_graph *g = NULL;
    if (mo_frontend_parse(c->env, c->bytes, c->n, NULL, &options, &g, err)) return NULL;
    return g;
}

static void free_all(const struct mo_env *env, moire_tensor *t, int n) {
    for (int i = 0; i < n; i++)
        mo_free(env, t[i].data);
}

static bool same_bits(const moire_tensor *a, const moire_tensor *b) {
    return a->bytes == b->bytes && !memcmp(a->data, b->data, a->bytes);
}

/* Passes must not change what references compute. */
static void try_passes(const struct dt_case *c, enum form form, struct dt_result *r) {
    moire_error err = {0};
    struct mo_value values[DT_PORTS];
    char why[400], name[40];
    struct mo_graph *g = load(c, form, &err);
    snprintf(name, sizeof name, "references after passes%s", form_names[form]);
    if (!g) {
        differs(r, DT_BUILT_IN, "%s: %s", name, err.message);
        return;
    }
    int rc = mo_interpret(g, c->in, c->n_in, values, &err);
    if (rc) differs(r, DT_BUILT_IN, "%s: %s", name, err.message);
    for (int i = 0; !rc && i < c->n_out; i++) {
        moire_tensor got = {.dtype = values[i].dtype, .rank = values[i].shape.rank, .data = values[i].data};
        memcpy(got.shape, values[i].shape.d, sizeof got.shape);
        if (!dt_case_agrees(c, i, &got, DT_CLOSE, why, sizeof why))
            differs(r, DT_BUILT_IN, "%s: %s", name, why);
    }
    if (!rc) mo_interpret_free(c->env, values, c->n_out);
    mo_graph_destroy(g);
}

static enum dt_strictness strictness_of(const struct mo_plan *plan) {
    for (int k = 0; k < plan->n_steps; k++)
        if (plan->steps[k].mixes) return DT_MIXED;
    return DT_CLOSE;
}

static void cover_plan(struct dt_net *net, const struct mo_plan *plan) {
    for (int k = 0; k < plan->n_steps; k++) {
        const struct mo_step *step = &plan->steps[k];
        if (strcmp(step->kind, "specialised")) dt_cover_add(&net->cover, "kernel", step->kernel);
    }
}

/* Once whole, once in pieces on other memory: right, and the same to the bit. */
static void try_plan(struct dt_net *net, const struct dt_case *c, struct mo_plan *plan, const char *name,
                     unsigned way, struct dt_result *r) {
    moire_error err = {0};
    moire_tensor whole[DT_PORTS], parts[DT_PORTS];
    char why[400];
    struct dt_steps a = {.pattern = 0xff, .random = dt_random_of(c->seed, 2)};
    struct dt_steps b = {.pattern = 0x4b, .pieces = true, .random = dt_random_of(c->seed, 3)};
    if (dt_steps_run(&a, plan, c->in, c->n_in, whole, &err)) {
        differs(r, way, "%s: %s", name, err.message);
        return;
    }
    for (int i = 0; i < c->n_out; i++)
        if (!dt_case_agrees(c, i, &whole[i], strictness_of(plan), why, sizeof why))
            differs(r, way, "%s: %s", name, why);
    if (dt_steps_run(&b, plan, c->in, c->n_in, parts, &err)) {
        differs(r, way, "%s in pieces: %s", name, err.message);
    } else {
        for (int i = 0; i < c->n_out; i++)
            if (!same_bits(&whole[i], &parts[i]))
                differs(r, way, "%s: output %d has other bits in pieces", name, i);
        free_all(c->env, parts, c->n_out);
    }
    free_all(c->env, whole, c->n_out);
    cover_plan(net, plan);
}

static void try_built_in(struct dt_net *net, const struct dt_case *c, enum mo_isa isa, enum form form,
                         struct dt_result *r) {
    moire_error err = {0};
    char name[60];
    struct mo_plan *plan;
    struct mo_graph *g = load(c, form, &err);
    snprintf(name, sizeof name, "built-in %s%s", mo_isa_name(isa), form_names[form]);
    if (!g || mo_plan_build(g, &(struct mo_plan_options){.isa = isa}, &plan, &err)) {
        differs(r, DT_BUILT_IN, "%s: %s", name, err.message);
        return;
    }
    try_plan(net, c, plan, name, DT_BUILT_IN, r);
    mo_plan_destroy(plan);
}

static void note_kernels(struct dt_net *net, const struct dt_compiled *k, enum mo_isa isa) {
    for (int i = 0; i < k->n; i++)
        dt_cover_add(&net->cover, "family", k->kernel[i].family->name);
    net->compiled[isa] += k->n > 0;
    net->kernels += k->compiled;
    net->reused += k->reused;
}

static void kernel_names(const struct dt_compiled *k, char *out, size_t n) {
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < k->n && at + 1 < n; i++)
        at += (size_t)snprintf(out + at, n - at, " %s", k->kernel[i].signature);
}

static void try_compiled(struct dt_net *net, const struct dt_case *c, enum mo_isa isa, struct dt_result *r) {
    moire_error err = {0};
    char name[400], kernels[300], folder[600];
    struct dt_random random = dt_random_of(c->seed, 10 + (uint64_t)isa);
    struct mo_plan *plan;
    snprintf(folder, sizeof folder, "%s/kernels", net->folder);
    struct dt_compiled k = {.env = c->env, .folder = folder, .most = net->kernels_each};
    struct mo_graph *g = load(c, WHOLE, &err);
    if (!g) return;
    if (dt_compile(&k, g, isa, &random, &err)) {
        differs(r, DT_COMPILED_TOO, "compiled %s: %s", mo_isa_name(isa), err.message);
        mo_graph_destroy(g);
    } else if (!k.n) {
        mo_graph_destroy(g);
    } else {
        struct mo_plan_options options = {.isa = isa, .variant = dt_compiled_find, .variant_ctx = &k};
        kernel_names(&k, kernels, sizeof kernels);
        snprintf(name, sizeof name, "compiled %s (%s)", mo_isa_name(isa), kernels + 1);
        if (mo_plan_build(g, &options, &plan, &err)) {
            differs(r, DT_COMPILED_TOO, "%s: %s", name, err.message);
        } else {
            try_plan(net, c, plan, name, DT_COMPILED_TOO, r);
            mo_plan_destroy(plan);
        }
        note_kernels(net, &k, isa);
    }
    dt_compiled_unload(&k);
}

/* A reason without the names of this very model: what it has no kernel for, which type it does not allow. */
static void shorten(char *reason) {
    char type[32] = "", op[40] = "";
    const char *kernel = strstr(reason, "implementation for "), *bad = strstr(reason, "Type 'tensor(");
    const char *of = strstr(reason, "of operator (");
    if (bad && of && sscanf(bad, "Type 'tensor(%31[^)]", type) == 1 &&
        sscanf(of, "of operator (%39[^)]", op) == 1)
        snprintf(reason, strlen(reason) + 1, "no %s in %s", type, op);
    else if (kernel)
        memmove(reason, kernel, strcspn(kernel, "(") + 1), reason[strcspn(reason, "(")] = 0;
    for (char *s = reason; *s; s++)
        if (*s >= '0' && *s <= '9') *s = '#';
}

static void try_peer(struct dt_net *net, const struct dt_case *c, struct dt_result *r) {
    moire_tensor got[DT_PORTS] = {{0}};
    char why[420];
    int n;
    if (dt_peer_run(net->peer, c, got, &n, why, sizeof why)) {
        shorten(why);
        dt_cover_add(&net->cover, "refused by ONNX Runtime", why);
    } else {
        net->peers++;
        for (int i = 0; i < c->n_out && i < n; i++)
            if (!dt_case_agrees(c, i, &got[i], DT_PEER, why, sizeof why))
                differs(r, DT_PEER_TOO, "ONNX Runtime: %s", why);
    }
    for (int i = 0; i < n; i++)
        free(got[i].data);
}

void dt_net_try(struct dt_net *net, const struct dt_case *c, unsigned ways, struct dt_result *r) {
    r->verdict = DT_SAME;
    r->what[0] = 0;
    if (ways & DT_BUILT_IN) {
        try_passes(c, WHOLE, r);
        try_passes(c, NO_LAYOUT, r);
        for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa))
            try_built_in(net, c, (enum mo_isa)isa, WHOLE, r);
        try_built_in(net, c, mo_isa_detect(), NO_LAYOUT, r);
        try_built_in(net, c, mo_isa_detect(), NO_PASSES, r);
    }
    if (ways & DT_COMPILED_TOO)
        for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT; isa = mo_isa_next(isa))
            try_compiled(net, c, (enum mo_isa)isa, r);
    if ((ways & DT_PEER_TOO) && net->peer) try_peer(net, c, r);
    if ((ways & DT_SERVED_TOO) && net->server) {
        char why[600];
        if (!dt_served_try(net->server, c, why, sizeof why)) differs(r, DT_SERVED_TOO, "served: %s", why);
        net->served++;
    }
}

/* --- canaries --- */

/* Whether the plan, with a fault planted, gives a wrong answer or is caught otherwise. */
static bool sees(const struct dt_case *c, const struct mo_plan *plan, const struct dt_fault *fault,
                 int *hits) {
    struct dt_steps how = {.pattern = 0xff, .fault = fault, .random = dt_random_of(c->seed, 2)};
    moire_tensor got[DT_PORTS];
    moire_error err;
    char why[400];
    bool seen = false;
    int rc = dt_steps_run(&how, plan, c->in, c->n_in, got, &err);
    *hits = how.hits;
    if (rc) return how.hits > 0;
    for (int i = 0; i < c->n_out; i++)
        seen |= !dt_case_agrees(c, i, &got[i], strictness_of(plan), why, sizeof why);
    free_all(c->env, got, c->n_out);
    return seen;
}

bool dt_net_fault(const struct dt_case *c, enum mo_isa isa, const struct dt_fault *fault, int *hits) {
    moire_error err;
    struct mo_plan *plan;
    struct mo_graph *g = load(c, WHOLE, &err);
    *hits = 0;
    if (!g || mo_plan_build(g, &(struct mo_plan_options){.isa = isa}, &plan, &err)) return false;
    bool seen = sees(c, plan, fault, hits);
    mo_plan_destroy(plan);
    return seen && *hits;
}

bool dt_net_text_fault(struct dt_net *net, const struct dt_case *c, enum mo_isa isa, const char *family,
                       const char *from, const char *to, int *hits) {
    moire_error err;
    char folder[600];
    struct dt_random random = dt_random_of(c->seed, 10 + (uint64_t)isa);
    struct mo_plan *plan = NULL;
    bool seen = false;
    int none;
    snprintf(folder, sizeof folder, "%s/kernels", net->folder);
    struct dt_compiled k = {.env = c->env, .folder = folder, .family = family, .from = from, .to = to};
    struct mo_plan_options options = {.isa = isa, .variant = dt_compiled_find, .variant_ctx = &k};
    struct mo_graph *g = load(c, WHOLE, &err);
    if (!g) return false;
    if (dt_compile(&k, g, isa, &random, &err) || !k.n) {
        mo_graph_destroy(g);
    } else if (!mo_plan_build(g, &options, &plan, &err)) {
        seen = sees(c, plan, NULL, &none);
        mo_plan_destroy(plan);
    }
    *hits = k.replaced;
    dt_compiled_unload(&k);
    return seen && *hits;
}
