/* SPDX-License-Identifier: Apache-2.0
 * resident.c - mappings by kind; see resident.h. */
#include "bench/load/resident.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[MO_RESIDENT_KINDS] = {[MO_RESIDENT_MODELS] = "models",
                                                     [MO_RESIDENT_KERNELS] = "kernels",
                                                     [MO_RESIDENT_FILES] = "files",
                                                     [MO_RESIDENT_HEAP] = "heap",
                                                     [MO_RESIDENT_PAGES] = "pages"};

const char *mo_resident_name(enum mo_resident_kind kind) {
    return names[kind];
}

static bool ends_in(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* Compiled kernels: copies of them in memory, and their files, whose names are 64 digits wherever the store
 * is. */
static bool is_kernel(const char *path) {
    const char *slash = strrchr(path, '/');
    return !strncmp(path, "/memfd:", 7) ||
           (slash && ends_in(path, ".so") && strspn(slash + 1, "0123456789abcdef") == 64);
}

/* By the path of a mapping; "" is anonymous. */
static enum mo_resident_kind kind_of(const char *path) {
    if (ends_in(path, ".model")) return MO_RESIDENT_MODELS;
    if (is_kernel(path)) return MO_RESIDENT_KERNELS;
    if (!strcmp(path, "[heap]")) return MO_RESIDENT_HEAP;
    return path[0] == '/' ? MO_RESIDENT_FILES : MO_RESIDENT_PAGES;
}

/* The path of a line "from-to mode offset device inode path"; false: it is another line. */
static bool read_head(char *line, const char **path) {
    char *at;
    strtoull(line, &at, 16);
    if (at == line || *at != '-') return false;
    line[strcspn(line, "\n")] = 0;
    for (int words = 0; words < 5; words++) {
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    *path = at;
    return true;
}

void mo_resident_read(FILE *smaps, struct mo_resident *out) {
    char line[4400];
    const char *path;
    enum mo_resident_kind kind = MO_RESIDENT_PAGES;
    bool file = false;
    *out = (struct mo_resident){.file_mib = 0};
    while (fgets(line, sizeof line, smaps)) {
        if (read_head(line, &path)) {
            kind = kind_of(path);
            file = path[0] == '/' && strncmp(path, "/memfd:", 7) != 0;
        } else if (!strncmp(line, "Rss:", 4)) {
            out->mib[kind] += strtod(line + 4, NULL) / 1024;
        } else if (file && (!strncmp(line, "Shared_Clean:", 13) || !strncmp(line, "Private_Clean:", 14))) {
            out->file_mib += strtod(strchr(line, ':') + 1, NULL) / 1024;
        }
    }
}
