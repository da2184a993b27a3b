/* SPDX-License-Identifier: Apache-2.0
 * serve_functions.c - see serve_functions.h.
 *
 * The server knows libmoire's header only, and models/ no server; the command knows both, so it hands the
 * one to the other.  Each run has a region of its own, which holds its outputs. */
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

static int run(const struct ms_function *fn, const void *state, const moire_tensor *in, moire_tensor *out,
               void **memory, moire_error *err) {
    const struct shared *s = state;
    const struct mo_function *o = fn->user;
    struct mo_region *region = mo_region_create(&s->env);
    if (!region) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    const int code = o->run(region, &s->dictionary, in, out, err);
    if (code)
        mo_region_destroy(region);
    else
        *memory = region;
    return code;
}

static void release(void *memory) {
    mo_region_destroy(memory);
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
