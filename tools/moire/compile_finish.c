/* SPDX-License-Identifier: Apache-2.0
 * compile_finish.c - see compile_finish.h. */
#include "tools/moire/compile_finish.h"

#include <stdio.h>
#include "tools/moire/verb.h"

enum { SEED = 1 };

/* As struct mo_verifier wants it. */
static void on_withdrawn(void *ctx, const struct mo_withdrawn *w) {
    struct mo_finish *f = ctx;
    char why[200];
    fprintf(stderr,
            "moire %s: '%s': layer '%.100s' (%s, signature %s): compiled kernel `%s`%s %s; the built-in "
            "kernel is used\n",
            f->verb, f->file, w->layer, w->op, w->signature, w->kernel,
            w->version ? ", a later version," : "", w->why);
    snprintf(why, sizeof why, "in the model: %.180s", w->why);
    mo_search_withdraw(f->search, w->signature, why);
    json_t *name = json_string(w->layer);
    json_array_append_new(f->withdrawn,
                          json_pack("{ss so ss ss ss si ss sf}", "file", f->file, "node",
                                    name ? name : json_string("?"), "operator", w->op, "layer", w->signature,
                                    "kernel", w->kernel, "version", w->version, "why", w->why, "error",
                                    w->error < 1e300 ? w->error : 1e300));
}

static int fail(const struct mo_finish *f, const moire_error *err, const char *then) {
    int code = mo_verb_fail(f->verb, err);
    fprintf(stderr, "moire %s: '%s' %s\n", f->verb, f->file, then);
    return code;
}

static int verify(struct mo_finish *f, const struct mo_compiled_request *request, struct mo_finished *m) {
    const struct mo_verifier v = {
        .store = f->store, .request = *request, .seed = SEED, .withdrawn = on_withdrawn, .ctx = f};
    moire_error err = {0};
    if (mo_verify_model(f->env, &v, &m->found, &err))
        return fail(f, &err, "is not published: its compiled kernels are not verified");
    m->verified = true;
    if (mo_verified_is_wrong(&m->found)) {
        fprintf(stderr,
                "moire %s: '%s': its outputs differ by %.2g of their range, %.2g is allowed, though every "
                "layer is right; it is not published.  `moire check-model --verify` shows more\n",
                f->verb, f->file, m->found.whole_error, m->found.whole_allowed);
        return MO_EXIT_FAILED;
    }
    return m->found.withdrawn ? MO_EXIT_FAILED : MO_EXIT_OK;
}

/* What a compiled model misses costs only start-up time. */
static void publish(struct mo_finish *f, const struct mo_compiled_request *request, struct mo_finished *m) {
    struct mo_published done;
    moire_error err = {0};
    int rc = mo_publish(f->env, f->store, request, &m->found, &done, &err);
    if (rc && rc != MOIRE_EUNSUPPORTED)
        fprintf(stderr, "moire %s: %s; it will load from ONNX\n", f->verb, err.message);
    m->published = !rc;
    m->bytes = rc ? 0 : done.bytes;
}

static int finish_model(struct mo_finish *f, const char *file, moire_shape *shapes) {
    struct mo_compiled_request request = {
        .path = file, .shapes = shapes, .exact = f->compile->exact, .isa = f->compile->search.isa};
    struct mo_finished *m = &f->model[f->n++];
    moire_error err = {0};
    *m = (struct mo_finished){.file = file};
    f->file = file;
    if (mo_compile_shapes(f->env, f->compile, file, shapes, &request.n_shapes, &err))
        return fail(f, &err, "is not published");
    int code = verify(f, &request, m);
    if (m->verified && !mo_verified_is_wrong(&m->found)) publish(f, &request, m);
    return code;
}

int mo_compile_finish(struct mo_finish *f) {
    size_t n = (size_t)f->compile->n_shapes + 1;
    moire_shape *shapes = mo_alloc(f->env, n * sizeof *shapes);
    int code = shapes ? MO_EXIT_OK : MO_EXIT_SYSTEM;
    if (!shapes) fprintf(stderr, "moire %s: out of memory binding shapes\n", f->verb);
    for (int i = 0; shapes && i < f->compile->n_files && !atomic_load(f->interrupted); i++) {
        int one = finish_model(f, f->compile->files[i], shapes);
        if (one) code = one;
    }
    mo_free(f->env, shapes);
    return code;
}
