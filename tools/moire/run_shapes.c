/* SPDX-License-Identifier: Apache-2.0
 * run_shapes.c - see run_shapes.h. */
#include "tools/moire/run_shapes.h"

#include <stdio.h>
#include <string.h>
#include "tools/moire/command_line/flags.h"
#include "tools/moire/verify/npy.h"

static bool is_given(const struct mo_options *o, const char *name) {
    for (int i = 0; i < o->shapes.n; i++)
        if (!strcmp(o->shapes.shape[i].input, name)) return true;
    return false;
}

int mo_run_shapes(const struct mo_env *env, const struct mo_options *o, struct mo_run_shapes *out,
                  moire_error *err) {
    out->n = o->shapes.n;
    memcpy(out->shape, o->shapes.shape, (size_t)o->shapes.n * sizeof *out->shape);
    for (int i = 0; i < o->inputs.n; i++) {
        const char *word = o->inputs.word[i], *at = strchr(word, '=');
        char *name = out->name[i];
        moire_tensor t;
        if (!at) return mo_flag_bad(err, "--input", word, "must look like NAME=FILE.npy");
        if (at - word >= (ptrdiff_t)sizeof out->name[i]) continue;
        snprintf(name, sizeof out->name[i], "%.*s", (int)(at - word), word);
        int rc = mo_npy_look(env, at + 1, &t, err);
        if (rc) return rc;
        if (!t.rank || is_given(o, name)) continue; /* a scalar has no shape to give */
        moire_shape *shape = &out->shape[out->n++];
        *shape = (moire_shape){.input = name, .rank = t.rank};
        memcpy(shape->shape, t.shape, sizeof shape->shape);
    }
    return MOIRE_OK;
}
