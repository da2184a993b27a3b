/* SPDX-License-Identifier: Apache-2.0
 * serve_functions.c - see serve_functions.h.
 *
 * The server knows libmoire's header only, and models/ no server; the command knows both, so it hands the
 * one to the other.  Each run has memory of its own, which holds its outputs and may outlive the model. */
#include "tools/moire/serve_functions.h"

#include <stdlib.h>
#include "models/ocr_functions.h"
#include "runtime/base/file.h"

/* What the runs of a model share: the dictionary of its file. */
struct shared {
    struct mo_env env;
    struct mo_region *region;
    struct mo_ocr_dictionary dictionary;
};

/* What a run leaves: its region, with the environment that the region gives its memory back to. */
struct outputs {
    struct mo_env env;
    struct mo_region *region;
};

static void close_shared(void *state) {
    struct shared *s = state;
    if (!s) return;
    mo_region_destroy(s->region);
    free(s);
}

static int read_file(struct shared *s, const char *path, moire_error *err) {
    char *text;
    size_t n;
    int code = mo_file_read(&s->env, path, s->env.limits.json_bytes, "json_bytes", &text, &n, err);
    if (code) return code;
    code = mo_ocr_dictionary(s->region, text, &s->dictionary);
    mo_free(&s->env, text);
    return code ? mo_fail(err, code, "%.300s: out of memory", path) : MOIRE_OK;
}

static int open_shared(const struct ms_function *fn, const char *path, void **state, moire_error *err) {
    struct shared *s = calloc(1, sizeof *s);
    (void)fn;
    if (!s) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    s->env = mo_env_default();
    s->region = mo_region_create(&s->env);
    int code = s->region ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    if (!code && path) code = read_file(s, path, err);
    if (code)
        close_shared(s);
    else
        *state = s;
    return code;
}

static void release(void *memory) {
    struct outputs *o = memory;
    mo_region_destroy(o->region);
    free(o);
}

static int run(const struct ms_function *fn, const void *state, const moire_tensor *in, moire_tensor *out,
               void **memory, moire_error *err) {
    const struct shared *s = state;
    const struct mo_function *function = fn->user;
    struct outputs *o = malloc(sizeof *o);
    if (!o) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    o->env = s->env;
    o->region = mo_region_create(&o->env);
    int code = o->region ? function->run(o->region, &s->dictionary, in, out, err)
                         : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    if (code)
        release(o);
    else
        *memory = o;
    return code;
}

struct ms_functions mo_serve_functions(struct ms_function row[MO_SERVE_FUNCTIONS]) {
    int n;
    const struct mo_function *o = mo_ocr_functions(&n);
    if (n > MO_SERVE_FUNCTIONS) n = MO_SERVE_FUNCTIONS;
    for (int i = 0; i < n; i++)
        row[i] = (struct ms_function){.name = o[i].name,
                                      .file = o[i].file,
                                      .input = o[i].input,
                                      .output = o[i].output,
                                      .n_inputs = o[i].n_inputs,
                                      .n_outputs = o[i].n_outputs,
                                      .user = &o[i],
                                      .open = open_shared,
                                      .close = close_shared,
                                      .run = run,
                                      .release = release};
    return (struct ms_functions){row, n};
}
