/* SPDX-License-Identifier: Apache-2.0
 * programs.c - see programs.h. */
#define _GNU_SOURCE
#include "tools/moire/programs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/trusted.h"
#include "runtime/gpu/cuda/cache_format.h"

enum { DIGITS = MO_SHA256_HEX - 1, PATH_CAP = 4096 + 256 };

static const struct {
    const char *name, *suffix;
} kinds[MO_PROGRAM_KINDS] = {
    [MO_PROGRAM_CODE] = {"code of GPU programs", MO_CUDA_CACHE_CODE},
    [MO_PROGRAM_CHOICE] = {"choices of GPU kernels", MO_CUDA_CACHE_CHOICE},
    [MO_PROGRAM_LEFT] = {"unfinished GPU files", NULL},
};

const char *mo_program_kind_name(enum mo_program_kind kind) {
    return kinds[kind].name;
}

/* --- the list --- */
struct listing {
    struct mo_programs *programs;
    const char *version;   /* the folder "v<format>" */
    const char *subfolder; /* NULL: the version's own folder */
    bool stale;
    int folder, rc; /* the present folder, open */
};

static struct mo_program_file *append(struct mo_programs *p) {
    if (p->n == p->cap) {
        int cap = p->cap ? 2 * p->cap : 64;
        struct mo_program_file *more = mo_alloc(p->env, (size_t)cap * sizeof *more);
        if (!more) return NULL;
        if (p->n) memcpy(more, p->file, (size_t)p->n * sizeof *more);
        mo_free(p->env, p->file);
        p->file = more;
        p->cap = cap;
    }
    return &p->file[p->n++];
}

/* The kind of a file by its name; MO_PROGRAM_KINDS: one that is not ours, and is left alone. */
static enum mo_program_kind kind_of(const struct listing *l, const char *name) {
    int kind = MO_PROGRAM_CODE;
    if (!l->subfolder) return strcmp(name, MO_CUDA_CACHE_NEW) ? MO_PROGRAM_KINDS : MO_PROGRAM_LEFT;
    if (strspn(name, "0123456789abcdef") != DIGITS || strncmp(name, l->subfolder, 2)) return MO_PROGRAM_KINDS;
    while (kind < MO_PROGRAM_LEFT && strcmp(name + DIGITS, kinds[kind].suffix))
        kind++;
    return kind < MO_PROGRAM_LEFT ? (enum mo_program_kind)kind : MO_PROGRAM_KINDS;
}

static int list_file(void *ctx, const char *name) {
    struct listing *l = ctx;
    const struct mo_sys *sys = l->programs->env->sys;
    enum mo_program_kind kind = kind_of(l, name);
    struct mo_stat st;
    if (kind == MO_PROGRAM_KINDS) return 0;
    int fd = sys->open_at(sys->self, l->folder, name, O_PATH | O_NOFOLLOW, 0);
    if (fd < 0) return 0; /* gone meanwhile */
    int rc = sys->stat(sys->self, fd, &st);
    sys->close(sys->self, fd);
    if (rc < 0 || !st.is_file) return 0;
    struct mo_program_file *f = append(l->programs);
    if (!f) return l->rc = MOIRE_ENOMEM;
    *f = (struct mo_program_file){.kind = kind, .state = MO_STORED_NEEDED, .bytes = st.size, .why = ""};
    snprintf(f->path, sizeof f->path, "%.16s/%s%s%.80s", l->version, l->subfolder ? l->subfolder : "",
             l->subfolder ? "/" : "", name);
    if (kind != MO_PROGRAM_LEFT) memcpy(f->name, name, DIGITS);
    if (l->stale)
        f->state = MO_STORED_STALE, f->why = "made by another version of moire";
    else if (kind == MO_PROGRAM_LEFT)
        f->state = MO_STORED_UNNEEDED, f->why = "its writer did not finish";
    return 0;
}

/* Calls fn for all in a folder below the programs', which follows the trust rule. */
static int list_in(struct listing *l, const char *below, int (*fn)(void *ctx, const char *name)) {
    const struct mo_env *env = l->programs->env;
    char path[PATH_CAP];
    snprintf(path, sizeof path, "%s%s%s", l->programs->folder, *below ? "/" : "", below);
    l->rc = mo_trusted_walk(env, path, &l->folder, NULL);
    if (l->rc || l->folder < 0) return l->rc;
    int folder = l->folder;
    env->sys->list(env->sys->self, path, fn, l);
    env->sys->close(env->sys->self, folder);
    return l->rc;
}

static int list_subfolder(void *ctx, const char *name) {
    struct listing *l = ctx, inner = *l;
    char below[64];
    if (strlen(name) != 2 || strspn(name, "0123456789abcdef") != 2) return 0;
    inner.subfolder = name;
    snprintf(below, sizeof below, "%.16s/%.2s", l->version, name);
    return l->rc = list_in(&inner, below, list_file);
}

static int list_version(void *ctx, const char *name) {
    struct listing *l = ctx, inner = *l;
    char here[16];
    snprintf(here, sizeof here, "v%d", MO_CUDA_CACHE_FORMAT);
    size_t n = strlen(name);
    if (n < 2 || n > 9 || name[0] != 'v' || strspn(name + 1, "0123456789") != n - 1) return 0;
    inner.version = name;
    inner.stale = strcmp(name, here) != 0;
    l->rc = list_in(&inner, name, list_subfolder);
    if (!l->rc) l->rc = list_in(&inner, name, list_file);
    return l->rc;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const struct mo_program_file *)a)->path, ((const struct mo_program_file *)b)->path);
}

int mo_programs_open(const struct mo_env *env, const char *folder, struct mo_programs *out,
                     moire_error *err) {
    struct listing l = {.programs = out};
    *out = (struct mo_programs){.env = env};
    if (snprintf(out->folder, sizeof out->folder, "%s", folder) >= (int)sizeof out->folder - 256)
        return mo_fail(err, MOIRE_ESTORE, "path of the folder of GPU programs is too long");
    if (!*folder) return MOIRE_OK;
    int open, rc = mo_trusted_walk(env, folder, &open, err);
    if (rc || open < 0) return rc;
    env->sys->close(env->sys->self, open);
    rc = list_in(&l, "", list_version);
    if (out->n) qsort(out->file, (size_t)out->n, sizeof *out->file, by_path);
    if (!rc) return MOIRE_OK;
    mo_programs_close(out);
    return mo_fail(err, rc, "GPU programs in '%.200s': %s", folder,
                   rc == MOIRE_ENOMEM ? "out of memory" : "a folder breaks the trust rule");
}

void mo_programs_close(struct mo_programs *p) {
    if (p->file) mo_free(p->env, p->file);
    p->file = NULL;
    p->n = p->cap = 0;
}

/* --- checksums --- */
/* NULL, or what is wrong; *rc: MOIRE_ENOMEM ends it. */
static const char *fault_of(const struct mo_programs *p, const struct mo_program_file *f, int *rc) {
    const struct mo_env *env = p->env;
    struct mo_trusted_file bytes;
    char path[PATH_CAP];
    int folder;
    const char *slash = strrchr(f->path, '/');
    snprintf(path, sizeof path, "%s/%.*s", p->folder, (int)(slash - f->path), f->path);
    *rc = mo_trusted_walk(env, path, &folder, NULL);
    if (*rc) return "its folder breaks the trust rule";
    if (folder < 0) return NULL; /* gone meanwhile */
    *rc = mo_trusted_map(env, folder, slash + 1, MO_CUDA_CACHE_FILE_MOST, &bytes, NULL);
    env->sys->close(env->sys->self, folder);
    if (*rc) return "it breaks the trust rule, is too large or cannot be read";
    if (!bytes.bytes) return NULL;
    const char *why = mo_cuda_cache_fault(bytes.bytes, bytes.n, f->name);
    mo_trusted_close(env, &bytes);
    return why;
}

int mo_programs_check(struct mo_programs *p, moire_error *err) {
    for (int i = 0; i < p->n; i++) {
        struct mo_program_file *f = &p->file[i];
        int rc = 0;
        const char *why = f->state == MO_STORED_NEEDED ? fault_of(p, f, &rc) : NULL;
        if (rc == MOIRE_ENOMEM) return mo_fail(err, rc, "out of memory checking GPU programs");
        if (why) f->state = MO_STORED_DAMAGED, f->why = why;
    }
    return MOIRE_OK;
}

/* --- cleaning --- */
int64_t mo_programs_surplus(const struct mo_programs *p, int *files) {
    int64_t bytes = 0;
    *files = 0;
    for (int i = 0; i < p->n; i++) {
        if (p->file[i].state == MO_STORED_NEEDED) continue;
        bytes += p->file[i].bytes;
        ++*files;
    }
    return bytes;
}

/* While the lock is held nobody writes, so what is called unfinished is. */
static int lock(const struct mo_programs *p, moire_error *err) {
    const struct mo_sys *sys = p->env->sys;
    char path[PATH_CAP];
    snprintf(path, sizeof path, "%s/v%d/" MO_CUDA_CACHE_LOCK, p->folder, MO_CUDA_CACHE_FORMAT);
    int fd = sys->open(sys->self, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd == -ENOENT) return 0; /* no writer of this version has been here */
    if (fd < 0) return mo_trusted_fail(err, "open", path, fd);
    int rc = sys->try_lock(sys->self, fd);
    if (rc >= 0) return fd;
    sys->close(sys->self, fd);
    return mo_fail(err, MOIRE_EBUSY, "'%.300s' is locked: GPU programs are being written; try again", path);
}

int mo_programs_clean(struct mo_programs *p, int *files, int64_t *bytes, moire_error *err) {
    const struct mo_sys *sys = p->env->sys;
    *files = 0;
    *bytes = 0;
    if (!p->n) return MOIRE_OK;
    int held = lock(p, err);
    if (held < 0) return held;
    int left = 0, rc = mo_programs_check(p, err);
    for (int i = 0; i < p->n && !rc; i++) {
        struct mo_program_file *f = &p->file[i];
        char path[PATH_CAP];
        snprintf(path, sizeof path, "%s/%s", p->folder, f->path);
        int gone = f->state == MO_STORED_NEEDED ? -1 : sys->unlink(sys->self, path);
        if (gone < 0) {
            p->file[left++] = *f;
            continue;
        }
        *bytes += f->bytes;
        ++*files;
    }
    if (!rc) p->n = left;
    if (held > 0) sys->close(sys->self, held);
    return rc;
}
