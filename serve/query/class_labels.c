/* SPDX-License-Identifier: Apache-2.0
 * class_labels.c - reads names of classes; see class_labels.h. */
#define _GNU_SOURCE
#include "serve/query/class_labels.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "serve/protocol/fault.h"

static const char *file_of(const json_t *config, const char *name) {
    const json_t *outputs = json_object_get(config, "output");
    for (size_t i = 0; i < json_array_size(outputs); i++) {
        const json_t *o = json_array_get(outputs, i);
        const char *own = json_string_value(json_object_get(o, "name"));
        if (own && !strcmp(own, name)) return json_string_value(json_object_get(o, "label_filename"));
    }
    return NULL;
}

/* The file's text with an end; a pipe or a device is no file of labels. */
static int read_text(const char *path, struct ms_labels *out, moire_error *err) {
    struct stat s;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &s) || !S_ISREG(s.st_mode)) {
        if (fd >= 0) close(fd);
        return ms_fail(err, MOIRE_EIO, "the labels %.300s cannot be read: %s", path,
                       fd < 0 ? strerror(errno) : "it is no file");
    }
    int rc = MOIRE_OK;
    size_t n = 0;
    ssize_t got = 0;
    if (s.st_size > MS_LABEL_BYTES)
        rc = ms_fail(err, MOIRE_ELIMIT, "the labels %.300s are larger than %d bytes", path, MS_LABEL_BYTES);
    if (!rc && !(out->text = malloc((size_t)s.st_size + 1)))
        rc = ms_fail(err, MOIRE_ENOMEM, "no memory for the labels %.300s", path);
    while (!rc && (got = read(fd, out->text + n, (size_t)s.st_size - n)) > 0)
        n += (size_t)got;
    if (got < 0) rc = ms_fail(err, MOIRE_EIO, "the labels %.300s cannot be read: %s", path, strerror(errno));
    if (out->text) out->text[n] = 0;
    close(fd);
    return rc;
}

static int split(const char *path, struct ms_labels *out, moire_error *err) {
    size_t lines = 1;
    for (const char *c = out->text; *c; c++)
        lines += *c == '\n';
    out->line = calloc(lines, sizeof *out->line);
    if (!out->line) return ms_fail(err, MOIRE_ENOMEM, "no memory for the labels %.300s", path);
    char *rest = out->text;
    while (rest && *rest) {
        char *line = strsep(&rest, "\n");
        const size_t n = strlen(line);
        if (n && line[n - 1] == '\r') line[n - 1] = 0;
        json_t *text = json_string(line);
        if (!text)
            return ms_fail(err, MOIRE_EINVAL, "the labels %.300s: line %zu is not UTF-8", path, out->n + 1);
        json_decref(text);
        out->line[out->n++] = line;
    }
    return MOIRE_OK;
}

int ms_labels_open(const char *folder, const json_t *config, const char *name, struct ms_labels *out,
                   moire_error *err) {
    char path[1400];
    const char *file = file_of(config, name);
    *out = (struct ms_labels){0};
    if (!file || !*file) return MOIRE_OK;
    if (strchr(file, '/') || file[0] == '.')
        return ms_fail(err, MOIRE_EINVAL, "label_filename '%.100s' must name a file of the model's folder",
                       file);
    if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path)
        return ms_fail(err, MOIRE_EINVAL, "label_filename '%.100s' is too long", file);
    int rc = read_text(path, out, err);
    if (!rc) rc = split(path, out, err);
    if (rc) ms_labels_close(out);
    return rc;
}

void ms_labels_close(struct ms_labels *labels) {
    free(labels->text);
    free(labels->line);
    *labels = (struct ms_labels){0};
}

const char *ms_label(const struct ms_labels *labels, size_t index) {
    return index < labels->n ? labels->line[index] : "";
}
