/* SPDX-License-Identifier: Apache-2.0
 * scale_files.c - files of a folder, each put together in memory and then written whole; see scale.h. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include "runtime/base/output.h"
#include "tools/moire/paths.h"
#include "tools/moire/scale/scale.h"

int mo_scale_folder_open(const struct mo_env *env, const char *path, struct mo_scale_folder *out,
                         moire_error *err) {
    *out = (struct mo_scale_folder){.env = env, .path = path, .written = json_array()};
    return out->written ? mo_path_make_folder(env, path, err) : mo_fail(err, MOIRE_ENOMEM, "out of memory");
}

void mo_scale_folder_close(struct mo_scale_folder *f) {
    if (f->to) fclose(f->to);
    free(f->text);
    json_decref(f->written);
    *f = (struct mo_scale_folder){.to = NULL};
}

FILE *mo_scale_file(struct mo_scale_folder *f) {
    f->to = open_memstream(&f->text, &f->n);
    return f->to;
}

/* The folder in front of the name. */
static int make_inner(const struct mo_scale_folder *f, const char *name, moire_error *err) {
    char path[MO_OUTPUT_PATH];
    const char *slash = strchr(name, '/');
    if (!slash) return MOIRE_OK;
    snprintf(path, sizeof path, "%s/%.*s", f->path, (int)(slash - name), name);
    return mo_path_make_folder(f->env, path, err);
}

int mo_scale_file_end(struct mo_scale_folder *f, const char *name, moire_error *err) {
    char path[MO_OUTPUT_PATH];
    const bool whole = f->to && !ferror(f->to);
    const bool closed = f->to && !fclose(f->to);
    int code = MOIRE_OK;
    f->to = NULL;
    if (!whole || !closed) code = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    if (!code && snprintf(path, sizeof path, "%s/%s", f->path, name) >= (int)sizeof path)
        code = mo_fail(err, MOIRE_EINVAL, "%.80s...: path too long", f->path);
    if (!code) code = make_inner(f, name, err);
    if (!code) code = mo_output_write(f->env, path, f->text, f->n, err);
    if (!code && json_array_append_new(f->written, json_string(name)))
        code = mo_fail(err, MOIRE_ENOMEM, "out of memory");
    free(f->text);
    f->text = NULL;
    return code;
}

void mo_scale_quote(FILE *to, const char *text) {
    fputc('"', to);
    for (; *text; text++) {
        if (strchr("\"\\", *text)) fputc('\\', to);
        fputc(*text, to);
    }
    fputc('"', to);
}
