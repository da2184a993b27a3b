/* SPDX-License-Identifier: Apache-2.0
 * scan.c - finds the models in a folder; see scan.h. */
#define _GNU_SOURCE
#include "serve/repository/scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "serve/pipeline/functions.h"
#include "serve/protocol/fault.h"
#include "serve/query/class_labels.h"
#include "serve/repository/pbtxt.h"

struct scanner {
    const struct ms_source *from;
    struct ms_scan *to;
    struct ms_faults *faults;
    moire_error *err;
};

static int64_t stamp_of(const char *path) {
    struct stat s;
    if (stat(path, &s)) return 0;
    return (int64_t)s.st_mtim.tv_sec * 1000000007 + s.st_mtim.tv_nsec + (int64_t)s.st_size * 31 +
           (int64_t)s.st_ino;
}

static bool is_file(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

/* A whole file of at most MS_PBTXT_BYTES; a pipe or a device is none. */
static int read_config(const char *path, json_t **out, moire_error *err) {
    *out = NULL;
    FILE *file = is_file(path) ? fopen(path, "re") : NULL;
    if (!file) return ms_fail(err, MOIRE_EIO, "cannot be read: %s", strerror(errno));
    char *text = malloc(MS_PBTXT_BYTES + 1);
    const size_t n = text ? fread(text, 1, MS_PBTXT_BYTES + 1, file) : 0;
    int rc = text ? MOIRE_OK : ms_fail(err, MOIRE_ENOMEM, "out of memory");
    if (ferror(file)) rc = ms_fail(err, MOIRE_EIO, "cannot be read: %s", strerror(errno));
    fclose(file);
    if (!rc) rc = ms_pbtxt_parse(text, n, out, err);
    free(text);
    return rc;
}

static int add(struct scanner *s, const char *name, const char *version, const char *path, int64_t stamp) {
    if (s->to->n == MS_MODELS)
        return ms_fail(s->err, MOIRE_ELIMIT, "more than %d models and versions", MS_MODELS);
    if (strlen(name) >= MS_NAME || strlen(path) >= MS_PATH) {
        ms_fault_say(s->faults, "%.100s: the name or the path is too long", name);
        return MOIRE_OK;
    }
    struct ms_found *f = &s->to->found[s->to->n++];
    *f = (struct ms_found){.stamp = stamp};
    memcpy(f->name, name, strlen(name));
    memcpy(f->path, path, strlen(path));
    snprintf(f->version, sizeof f->version, "%s", version);
    return MOIRE_OK;
}

bool ms_version_is_one(const char *text) {
    const size_t n = strlen(text);
    return n && n < MS_VERSION - 4 && strspn(text, "0123456789") == n;
}

static bool is_version(const char *name) {
    return ms_version_is_one(name) && name[0] != '0';
}

long long ms_version_number(const char *version) {
    return strtoll(version, NULL, 10);
}

static int newest_first(const struct dirent **a, const struct dirent **b) {
    const long long x = ms_version_number((*a)->d_name), y = ms_version_number((*b)->d_name);
    return (x < y) - (x > y);
}
static int keeps_versions(const struct dirent *e) {
    return is_version(e->d_name);
}

static bool is_chosen(const struct ms_settings *s, const char *version, int rank) {
    if (!s->only) return !s->versions || rank < s->versions;
    for (size_t i = 0; i < json_array_size(s->only); i++)
        if (json_integer_value(json_array_get(s->only, i)) == ms_version_number(version)) return true;
    return false;
}

static int add_versions(struct scanner *s, const char *folder, const char *name,
                        const struct ms_settings *settings, int64_t stamp) {
    struct dirent **list;
    const char *own = json_string_value(json_object_get(settings->config, "default_model_filename"));
    if (own && (strchr(own, '/') || !*own)) {
        ms_fault_say(s->faults,
                     "%s: config.pbtxt: default_model_filename must name a file of the version's folder",
                     name);
        own = NULL;
    }
    const int n = scandir(folder, &list, keeps_versions, newest_first), before = s->to->n;
    int rc = MOIRE_OK, rank = 0;
    for (int i = 0; i < n; i++) {
        char path[MS_PATH + 600];
        snprintf(path, sizeof path, "%s/%s/%.200s", folder, list[i]->d_name, own ? own : "model.onnx");
        if (!rc && is_chosen(settings, list[i]->d_name, rank++)) {
            if (is_file(path))
                rc = add(s, name, list[i]->d_name, path, stamp ^ stamp_of(path));
            else
                ms_fault_say(s->faults, "%s: there is no %s", name, path);
        }
        free(list[i]);
    }
    if (n >= 0) free(list);
    if (!rc && s->to->n == before) {
        ms_fault_say(s->faults, "%s: no version to serve: a model lies at %s/1/model.onnx", name, folder);
        rc = add(s, name, "1", "", stamp);
    }
    return rc;
}

/* A fault of the model before it is loaded. */
static void check_labels(const struct scanner *s, const char *folder, const char *name,
                         const json_t *config) {
    const json_t *outputs = json_object_get(config, "output");
    for (size_t i = 0; i < json_array_size(outputs); i++) {
        const char *output = json_string_value(json_object_get(json_array_get(outputs, i), "name"));
        struct ms_labels labels;
        moire_error why = {0};
        if (!output) continue;
        if (ms_labels_open(folder, config, output, &labels, &why))
            ms_fault_say(s->faults, "%s: %s", name, why.message);
        ms_labels_close(&labels);
    }
}

/* Of a model without a file.  One version, the newest of which there is a folder: all would have the same
 * configuration. */
static int add_fileless(struct scanner *s, const char *folder, const char *name, int64_t stamp) {
    struct dirent **list;
    const int n = scandir(folder, &list, keeps_versions, newest_first);
    const int rc = add(s, name, n > 0 ? list[0]->d_name : "1", "", stamp);
    for (int i = 0; i < n; i++)
        free(list[i]);
    if (n >= 0) free(list);
    return rc;
}

/* The function, and whether it has the file that it needs. */
static void check_function(const struct scanner *s, const char *name, const struct ms_settings *settings) {
    const struct ms_function *fn = ms_function_find(s->from->functions, settings->fn);
    const bool has_file = json_object_get(settings->config, "default_model_filename") != NULL;
    char known[300];
    ms_function_names(s->from->functions, known, sizeof known);
    if (!fn)
        ms_fault_say(s->faults, "%s: there is no function '%.60s'; there are: %s", name, settings->fn, known);
    else if (fn->file && !has_file)
        ms_fault_say(s->faults,
                     "%s: function '%s' needs a file in the version's folder, %s: name it as "
                     "default_model_filename",
                     name, fn->name, fn->file);
    else if (!fn->file && has_file)
        ms_fault_say(s->faults, "%s: function '%s' has no file: take default_model_filename out", name,
                     fn->name);
}

/* A folder of Triton's layout. */
static int add_folder(struct scanner *s, const char *path, const char *name, bool keep) {
    char config[MS_PATH + 20];
    struct ms_settings settings;
    json_t *read = NULL;
    moire_error why = {0};
    snprintf(config, sizeof config, "%s/config.pbtxt", path);
    if (is_file(config) && read_config(config, &read, &why)) {
        ms_fault_say(s->faults, "%s: config.pbtxt: %s", name, why.message);
        return add(s, name, "1", "", stamp_of(config));
    }
    read = ms_overlay_apply(ms_overlay_entry(s->from->models, name), read);
    ms_settings_read(read, name, &settings, s->faults);
    check_labels(s, path, name, settings.config);
    const int before = s->to->n;
    const bool has_file =
        !settings.is_ensemble && (!settings.fn || json_object_get(settings.config, "default_model_filename"));
    if (settings.fn) check_function(s, name, &settings);
    const int rc = has_file ? add_versions(s, path, name, &settings, stamp_of(config))
                            : add_fileless(s, path, name, stamp_of(config));
    for (int i = before; i < s->to->n; i++) {
        s->to->found[i].is_ensemble = settings.is_ensemble;
        s->to->found[i].is_function = settings.fn != NULL;
    }
    if (keep)
        s->to->settings = settings;
    else
        ms_settings_close(&settings);
    return rc;
}

/* A file by itself: what is to be said of it stands in the file of --config. */
static int add_file(struct scanner *s, const char *path, const char *name, bool keep) {
    struct ms_settings settings;
    ms_settings_read(ms_overlay_apply(ms_overlay_entry(s->from->models, name), NULL), name, &settings,
                     s->faults);
    if (keep)
        s->to->settings = settings;
    else
        ms_settings_close(&settings);
    return add(s, name, "1", path, stamp_of(path));
}

static bool is_listed(const struct ms_scan *scan, const char *name) {
    for (int i = 0; i < scan->n; i++)
        if (!strcmp(scan->found[i].name, name)) return true;
    return false;
}

static int add_entry(struct scanner *s, const char *folder, const char *entry, const char *only) {
    char name[300], path[MS_PATH];
    struct stat st;
    snprintf(name, sizeof name, "%s", entry);
    if (snprintf(path, sizeof path, "%s/%s", folder, entry) >= (int)sizeof path || stat(path, &st))
        return MOIRE_OK;
    char *dot = strrchr(name, '.');
    const bool bare = S_ISREG(st.st_mode) && dot && dot != name && !strcmp(dot, ".onnx");
    if (bare) *dot = 0;
    if (only && strcmp(only, name) != 0) return MOIRE_OK;
    if (json_object_get(ms_overlay_entry(s->from->models, name), "path")) return MOIRE_OK; /* that counts */
    if (S_ISDIR(st.st_mode)) return add_folder(s, path, name, only != NULL);
    if (!bare) return MOIRE_OK; /* a README is no fault */
    if (!is_listed(s->to, name)) return add_file(s, path, name, only != NULL);
    ms_fault_say(s->faults, "%s: there is a folder and a file of that name", name);
    return MOIRE_OK;
}

/* A model of --config: elsewhere, or in the repository. */
static int add_configured(struct scanner *s, const json_t *entry, const char *only) {
    char at[MS_PATH];
    struct stat st;
    const char *name = json_string_value(json_object_get(entry, "name"));
    const char *path = json_string_value(json_object_get(entry, "path"));
    if (only && strcmp(only, name) != 0) return MOIRE_OK;
    if (!path) {
        if (!is_listed(s->to, name))
            ms_fault_say(s->faults, "%s: the repository has no such model, and its entry no \"path\"", name);
        return MOIRE_OK;
    }
    const bool absolute = path[0] == '/';
    if (snprintf(at, sizeof at, "%s%s%s", absolute ? "" : s->from->models_folder, absolute ? "" : "/",
                 path) >= (int)sizeof at ||
        stat(at, &st)) {
        ms_fault_say(s->faults, "%s: there is no %.300s", name, path);
        return add(s, name, "1", "", 0);
    }
    return S_ISDIR(st.st_mode) ? add_folder(s, at, name, only != NULL) : add_file(s, at, name, only != NULL);
}

static int keeps_visible(const struct dirent *e) {
    return e->d_name[0] != '.';
}

static int scan_folder(struct scanner *s, const char *only) {
    struct dirent **list;
    const int n = scandir(s->from->folder, &list, keeps_visible, alphasort);
    int rc = n < 0 ? ms_fail(s->err, MOIRE_EIO, "%.300s cannot be read: %s", s->from->folder, strerror(errno))
                   : MOIRE_OK;
    for (int i = 0; i < n; i++) {
        if (!rc) rc = add_entry(s, s->from->folder, list[i]->d_name, only);
        free(list[i]);
    }
    if (n >= 0) free(list);
    return rc;
}

int ms_scan_open(const struct ms_source *from, const char *only, struct ms_scan *out,
                 struct ms_faults *faults, moire_error *err) {
    struct scanner s = {.from = from, .to = out, .faults = faults, .err = err};
    *out = (struct ms_scan){.found = calloc(MS_MODELS, sizeof *out->found)};
    if (!out->found) return ms_fail(err, MOIRE_ENOMEM, "out of memory");
    int rc = from->folder ? scan_folder(&s, only) : MOIRE_OK;
    for (size_t i = 0; i < json_array_size(from->models) && !rc; i++)
        rc = add_configured(&s, json_array_get(from->models, i), only);
    if (rc) ms_scan_close(out);
    return rc;
}

void ms_scan_close(struct ms_scan *scan) {
    free(scan->found);
    ms_settings_close(&scan->settings);
    *scan = (struct ms_scan){0};
}
