/* SPDX-License-Identifier: Apache-2.0
 * compile_finish.c - see compile_finish.h. */
#include "tools/moire/compile/compile_finish.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "codegen/search/writer.h"
#include "tools/moire/slow_show.h"
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

static int fail(struct mo_finish *f, const moire_error *err, const char *then) {
    fprintf(stderr, "moire %s: %s\nmoire %s: '%s' %s\n", f->verb, err->message, f->verb, f->file, then);
    f->err = *err;
    return (int)mo_exit_of(err->code);
}

static int verify(struct mo_finish *f, const struct mo_compiled_request *request, struct mo_finished *m) {
    const struct mo_verifier v = {.store = f->store,
                                  .request = *request,
                                  .seed = SEED,
                                  .ends = f->ends,
                                  .withdrawn = on_withdrawn,
                                  .ctx = f};
    moire_error err = {0};
    if (mo_verify_model(f->env, &v, &m->found, &err))
        return fail(f, &err, "is not published: its compiled kernels are not verified");
    m->cut = m->found.cut;
    if (m->cut) return m->found.withdrawn ? MO_EXIT_FAILED : MO_EXIT_OK;
    m->verified = true;
    if (mo_verified_is_wrong(&m->found)) {
        mo_fail(&err, MOIRE_EFAILED,
                "'%.200s': its outputs differ by %.2g of their range, %.2g is allowed, though every layer is "
                "right; `moire check-model --verify` shows more",
                f->file, m->found.whole_error, m->found.whole_allowed);
        return fail(f, &err, "is not published");
    }
    if (!m->found.withdrawn) return MO_EXIT_OK;
    return (int)mo_exit_of(
        mo_fail(&f->err, MOIRE_EFAILED, "'%.200s': a compiled kernel was wrong and is out of use", f->file));
}

/* Publishing, maybe in a copy of this process. */
struct publication {
    const struct mo_finish *f;
    const struct mo_compiled_request *request;
    const struct mo_verified *found;
};
struct outcome {
    int rc;
    struct mo_published done;
    moire_error err;
};

static void publish_now(void *ctx, void *shared) {
    const struct publication *p = ctx;
    struct outcome *o = shared;
    o->rc = mo_publish(p->f->env, p->f->store, p->request, p->found, &o->done, &o->err);
}

/* Only a copy can be stopped wherever it is; the store stands that, as it stands a kill.  False: it was. */
static bool publish_until(struct mo_finish *f, struct publication *p, struct outcome *out) {
    const struct mo_sys *sys = f->env->sys;
    struct outcome *shared = sys->share(sys->self, sizeof *shared);
    int64_t left = f->ends - mo_now(f->env);
    int status = shared ? sys->fork(sys->self, publish_now, p, shared, left > 0 ? left : 1) : -ENOMEM;
    if (shared) *out = *shared;
    if (status && status != -ETIMEDOUT)
        out->rc = mo_fail(&out->err, MOIRE_EIO, "publishing '%.150s' ended its process: %s", p->request->path,
                          status < 0 ? strerror(-status) : "a crash");
    if (shared) sys->unshare(sys->self, shared, sizeof *shared);
    if (status != -ETIMEDOUT) return true;
    struct mo_writer *w; /* clears what the copy left */
    if (!mo_writer_open(f->env, f->store, &w, NULL)) mo_writer_close(w);
    return false;
}

/* What a compiled model misses costs only start-up time. */
static void publish(struct mo_finish *f, const struct mo_compiled_request *request, struct mo_finished *m) {
    struct publication p = {f, request, &m->found};
    struct outcome o = {0};
    if (!f->ends)
        publish_now(&p, &o);
    else
        m->cut = !publish_until(f, &p, &o);
    m->slow = o.done.slow;
    mo_slow_warn(f->verb, f->file, &m->slow);
    if (m->cut) return;
    if (o.rc && o.rc != MOIRE_EUNSUPPORTED)
        fprintf(stderr, "moire %s: %s; it will load from ONNX\n", f->verb, o.err.message);
    m->published = !o.rc;
    m->bytes = o.rc ? 0 : o.done.bytes;
}

static int finish_model(struct mo_finish *f, const char *file, moire_shape *shapes) {
    struct mo_compiled_request request = {.path = file,
                                          .shapes = shapes,
                                          .exact = f->compile->exact,
                                          .precision = f->compile->precision,
                                          .isa = f->compile->search.isa};
    struct mo_finished *m = &f->model[f->n++];
    moire_error err = {0};
    *m = (struct mo_finished){.file = file};
    f->file = file;
    if (mo_compile_shapes(f->env, f->compile, file, shapes, &request.n_shapes, &err))
        return fail(f, &err, "is not published");
    int code = verify(f, &request, m);
    if (m->verified && !m->cut && !mo_verified_is_wrong(&m->found)) publish(f, &request, m);
    return code;
}

int mo_compile_finish(struct mo_finish *f) {
    size_t n = (size_t)f->compile->n_shapes + 1;
    moire_shape *shapes = mo_alloc(f->env, n * sizeof *shapes);
    moire_error none = {0};
    int code = MO_EXIT_OK;
    f->file = "all";
    if (!shapes) {
        mo_fail(&none, MOIRE_ENOMEM, "out of memory binding shapes");
        code = fail(f, &none, "is not published");
    }
    for (int i = 0; shapes && i < f->compile->n_files && !atomic_load(f->interrupted); i++) {
        int one = finish_model(f, f->compile->files[i], shapes);
        if (one) code = one;
    }
    mo_free(f->env, shapes);
    return code;
}
