/* SPDX-License-Identifier: Apache-2.0
 * survey_list.c - from what a command line names to the networks of a survey; see survey.h. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "runtime/base/file.h"
#include "tools/moire/command_line/options.h"
#include "tools/moire/paths.h"
#include "tools/moire/survey/survey.h"

static bool is_folder(const char *path) {
    struct stat s;
    return !stat(path, &s) && S_ISDIR(s.st_mode);
}

static bool is_model(const char *path) {
    const size_t n = strlen(path);
    struct stat s;
    return n > 5 && !strcmp(path + n - 5, ".onnx") && !stat(path, &s) && S_ISREG(s.st_mode);
}

static int grow(const struct mo_env *env, struct mo_survey_list *list, moire_error *err) {
    const int room = list->room ? 2 * list->room : 32;
    struct mo_survey_entry *more = mo_alloc(env, (size_t)room * sizeof *more);
    if (!more) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a list of networks");
    if (list->n) memcpy(more, list->entry, (size_t)list->n * sizeof *more);
    mo_free(env, list->entry);
    list->entry = more;
    list->room = room;
    return MOIRE_OK;
}

/* The last part of a path, without ".onnx"; of "NAME/model.onnx" the folder's. */
static void name_of(const char *path, char *out, size_t n) {
    const char *end = strrchr(path, '/');
    if (end && !strcmp(end, "/model.onnx")) {
        const char *from = end;
        while (from > path && from[-1] != '/')
            from--;
        snprintf(out, n, "%.*s", (int)(end - from), from);
    } else {
        mo_path_bare(path, out, n);
    }
}

static int add(const struct mo_env *env, struct mo_survey_list *list, const char *model, moire_error *err) {
    char name[80], data[MO_PATH_CAP];
    const char *slash = strrchr(model, '/');
    if (list->n == list->room && grow(env, list, err)) return MOIRE_ENOMEM;
    name_of(model, name, sizeof name);
    snprintf(data, sizeof data, "%.*sdata", slash ? (int)(slash - model + 1) : 0, model);
    const bool has = slash && !strcmp(slash, "/model.onnx") && is_folder(data);
    struct mo_survey_entry *e = &list->entry[list->n++];
    *e = (struct mo_survey_entry){.name = mo_region_string(list->region, name, strlen(name)),
                                  .model = mo_region_string(list->region, model, strlen(model)),
                                  .data = has ? mo_region_string(list->region, data, strlen(data)) : NULL};
    return e->name && e->model && (!has || e->data) ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
}

static int add_folder(const struct mo_env *env, struct mo_survey_list *list, const char *folder,
                      moire_error *err) {
    struct dirent **found = NULL;
    const int before = list->n, n = scandir(folder, &found, NULL, alphasort);
    int code = n < 0 ? mo_fail(err, MOIRE_EIO, "%.300s: %s", folder, strerror(errno)) : MOIRE_OK;
    for (int i = 0; i < n; i++) {
        char path[MO_PATH_CAP], inside[MO_PATH_CAP + sizeof "/model.onnx"];
        const int a = snprintf(path, sizeof path, "%s/%s", folder, found[i]->d_name);
        const bool fits = a > 0 && (size_t)a < sizeof path && found[i]->d_name[0] != '.';
        snprintf(inside, sizeof inside, "%s/model.onnx", path);
        if (!code && fits && is_model(path)) code = add(env, list, path, err);
        if (!code && fits && is_model(inside)) code = add(env, list, inside, err);
        free(found[i]);
    }
    free(found);
    if (!code && list->n == before)
        return mo_fail(err, MOIRE_EINVAL, "%.300s: no *.onnx and no NAME/model.onnx in it", folder);
    return code;
}

/* A path a line; those that begin with # and empty ones are nothing. */
static int add_lines(const struct mo_env *env, struct mo_survey_list *list, const char *path,
                     moire_error *err) {
    char *text, *rest = NULL;
    size_t n;
    int code = mo_file_read(env, path, env->limits.json_bytes, "json_bytes", &text, &n, err);
    if (code) return code;
    for (char *line = strtok_r(text, "\n", &rest); !code && line; line = strtok_r(NULL, "\n", &rest)) {
        if (!*line || *line == '#') continue;
        code = is_model(line) ? add(env, list, line, err)
                              : mo_fail(err, MOIRE_EINVAL, "%.200s: no model there: %.200s", path, line);
    }
    mo_free(env, text);
    return code;
}

int mo_survey_list_make(const struct mo_env *env, const struct mo_words *operands, struct mo_survey_list *out,
                        moire_error *err) {
    *out = (struct mo_survey_list){.region = mo_region_create(env)};
    int code = out->region ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    for (int i = 0; !code && i < operands->n; i++) {
        const char *word = operands->word[i];
        if (is_folder(word))
            code = add_folder(env, out, word, err);
        else if (is_model(word))
            code = add(env, out, word, err);
        else
            code = add_lines(env, out, word, err);
    }
    return code;
}

void mo_survey_list_free(const struct mo_env *env, struct mo_survey_list *list) {
    mo_free(env, list->entry);
    mo_region_destroy(list->region);
    *list = (struct mo_survey_list){0};
}
