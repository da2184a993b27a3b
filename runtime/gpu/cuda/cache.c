/* SPDX-License-Identifier: Apache-2.0
 * cache.c - see cache.h. */
#define _GNU_SOURCE
#include "runtime/gpu/cuda/cache.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { PATH_CAP = 1024, LOCK_TRIES = 200 };
static const int64_t LOCK_NS = 5000000;

struct mo_cuda_cache {
    const struct mo_env *env;
    char base[PATH_CAP]; /* <folder>/v<format> */
    int folder;
    _Atomic bool mute; /* a file could not be written, which was said: no more are */
};

static int enter(struct mo_cuda_cache *k, const char *folder, moire_error *err) {
    if (snprintf(k->base, sizeof k->base, "%s/v%d", folder, MO_CUDA_CACHE_FORMAT) >= PATH_CAP - 128)
        return mo_fail(err, MOIRE_ELIMIT, "its path is too long");
    moire_error unmade = {0};
    mo_trusted_make(k->env, k->base, &unmade);
    const int rc = mo_trusted_walk(k->env, k->base, &k->folder, err);
    return rc || k->folder >= 0 ? rc : mo_fail(err, MOIRE_ESTORE, "%s", unmade.message);
}

int mo_cuda_cache_open(const struct mo_env *env, const char *folder, struct mo_cuda_cache **out,
                       moire_error *err) {
    moire_error why = {0};
    *out = NULL;
    if (!folder || !*folder) return MOIRE_OK;
    struct mo_cuda_cache *k = mo_alloc(env, sizeof *k);
    if (!k) return mo_fail(err, MOIRE_ENOMEM, "no host memory for kept GPU programs");
    k->env = env;
    k->folder = -1;
    if (enter(k, folder, &why)) {
        mo_log(env, MOIRE_LOG_WARN, "compiled GPU programs are not kept in '%.200s': %s", folder,
               why.message);
        mo_cuda_cache_close(k);
    } else {
        *out = k;
    }
    return MOIRE_OK;
}

void mo_cuda_cache_close(struct mo_cuda_cache *k) {
    if (!k) return;
    if (k->folder >= 0) k->env->sys->close(k->env->sys->self, k->folder);
    mo_free(k->env, k);
}

static int read_file(const struct mo_cuda_cache *k, const char *name, const char *suffix,
                     struct mo_trusted_file *out, moire_error *err) {
    const char subfolder[3] = {name[0], name[1], 0};
    char file[MO_SHA256_HEX + 16];
    int folder;
    *out = (struct mo_trusted_file){0};
    int rc = mo_trusted_enter(k->env, k->folder, subfolder, &folder, err);
    if (rc || folder < 0) return rc;
    snprintf(file, sizeof file, "%s%s", name, suffix);
    rc = mo_trusted_map(k->env, folder, file, MO_CUDA_CACHE_FILE_MOST, out, err);
    k->env->sys->close(k->env->sys->self, folder);
    return rc;
}

bool mo_cuda_cache_find(const struct mo_cuda_cache *k, const char name[MO_SHA256_HEX], const char *suffix,
                        struct mo_cuda_cache_item *out) {
    moire_error err = {0};
    *out = (struct mo_cuda_cache_item){0};
    if (!k) return false;
    const int rc = read_file(k, name, suffix, &out->file, &err);
    const char *why = rc                ? err.message
                      : out->file.bytes ? mo_cuda_cache_fault(out->file.bytes, out->file.n, name)
                                        : NULL;
    if (!rc && !out->file.bytes) return false;
    if (why) {
        mo_log(k->env, MOIRE_LOG_WARN, "%s/%.2s/%s%s is not used, and made again: %s", k->base, name, name,
               suffix, why);
        if (!rc) mo_trusted_close(k->env, &out->file);
        return false;
    }
    out->bytes = (const char *)out->file.bytes + sizeof(struct mo_cuda_cache_head);
    out->n = out->file.n - sizeof(struct mo_cuda_cache_head);
    return true;
}

void mo_cuda_cache_give_back(const struct mo_cuda_cache *k, struct mo_cuda_cache_item *item) {
    if (item->bytes) mo_trusted_close(k->env, &item->file);
    *item = (struct mo_cuda_cache_item){0};
}

/* One writer at a time; the lock goes with the descriptor.  Who waits longer than a second does without. */
static int lock(const struct mo_cuda_cache *k, moire_error *err) {
    const struct mo_sys *sys = k->env->sys;
    char path[PATH_CAP + 32];
    snprintf(path, sizeof path, "%s/" MO_CUDA_CACHE_LOCK, k->base);
    const int fd = sys->open(sys->self, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0) return mo_trusted_fail(err, "create", path, fd), -1;
    int rc = sys->try_lock(sys->self, fd);
    for (int i = 0; i < LOCK_TRIES && rc < 0; i++) {
        sys->sleep_until(sys->self, mo_now(k->env) + LOCK_NS);
        rc = sys->try_lock(sys->self, fd);
    }
    if (rc >= 0) return fd;
    sys->close(sys->self, fd);
    return mo_trusted_fail(err, "lock", path, rc), -1;
}

static int place(const struct mo_cuda_cache *k, const char *name, const char *suffix, const void *bytes,
                 size_t n, moire_error *err) {
    const struct mo_sys *sys = k->env->sys;
    char from[PATH_CAP + 32], subfolder[PATH_CAP + 8], to[PATH_CAP + 128];
    snprintf(from, sizeof from, "%s/" MO_CUDA_CACHE_NEW, k->base);
    snprintf(subfolder, sizeof subfolder, "%s/%.2s", k->base, name);
    snprintf(to, sizeof to, "%s/%s%s", subfolder, name, suffix);
    const int held = lock(k, err);
    if (held < 0) return MOIRE_ESTORE;
    int rc = mo_trusted_make(k->env, subfolder, err);
    if (!rc) rc = mo_trusted_write(k->env, from, bytes, n, err);
    int moved = rc ? 0 : sys->rename(sys->self, from, to);
    if (moved < 0) {
        sys->unlink(sys->self, from);
        rc = mo_trusted_fail(err, "rename to", to, moved);
    }
    if (!rc) rc = mo_trusted_sync(k->env, subfolder, err);
    sys->close(sys->self, held);
    return rc;
}

void mo_cuda_cache_put(struct mo_cuda_cache *k, const char name[MO_SHA256_HEX], const char *suffix,
                       const void *bytes, size_t n) {
    moire_error err = {0};
    if (!k || k->mute) return;
    struct mo_cuda_cache_head *head = mo_alloc(k->env, sizeof *head + n);
    if (!head) return;
    memcpy(head->magic, MO_CUDA_CACHE_MAGIC, sizeof head->magic);
    memcpy(head->name, name, MO_SHA256_HEX);
    head->bytes = n;
    mo_cuda_cache_digest(bytes, n, head->digest);
    memcpy(head + 1, bytes, n);
    if (place(k, name, suffix, head, sizeof *head + n, &err) && !atomic_exchange(&k->mute, true))
        mo_log(k->env, MOIRE_LOG_WARN, "compiled GPU programs are not kept any more: %s", err.message);
    mo_free(k->env, head);
}

/* --- names ---------------------------------------------------------------------------------------------- */
void mo_cuda_cache_add(struct mo_sha256 *sum, const void *bytes, size_t n) {
    mo_cuda_cache_add_number(sum, (int64_t)n);
    mo_sha256_add(sum, bytes, n);
}

void mo_cuda_cache_add_number(struct mo_sha256 *sum, int64_t number) {
    mo_sha256_add(sum, &number, sizeof number);
}
