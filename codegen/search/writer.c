/* SPDX-License-Identifier: Apache-2.0
 * writer.c - files into the variant store: work folder, lock, rename; see writer.h. */
#define _GNU_SOURCE
#include "codegen/search/writer_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "variants/cpu.h"

enum { PATH_CAP = MO_WRITER_PATH, WORK_FOLDERS = 64, STREAM_BLOCK = 2 << 20 };

static void quiet_close(const struct mo_env *env, int fd) {
    if (fd >= 0) env->sys->close(env->sys->self, fd);
}

static int check_trust(const struct mo_env *env, const char *path, moire_error *err) {
    int fd;
    int rc = mo_trusted_walk(env, path, &fd, err);
    quiet_close(env, fd);
    if (!rc && fd < 0) rc = mo_fail(err, MOIRE_ESTORE, "it was removed meanwhile");
    return rc ? mo_fail_context(err, rc, "variant store '%.150s'", path) : MOIRE_OK;
}

/* --- work folder --- */

struct clearing {
    const struct mo_env *env;
    const char *folder;
};

static int remove_one(void *ctx, const char *name) {
    const struct clearing *c = ctx;
    char path[PATH_CAP + 300];
    if (strcmp(name, "lock") && snprintf(path, sizeof path, "%s/%s", c->folder, name) < (int)sizeof path)
        c->env->sys->unlink(c->env->sys->self, path);
    return 0;
}

static void clear_work(const struct mo_writer *w) {
    struct clearing c = {w->env, w->work};
    w->env->sys->list(w->env->sys->self, w->work, remove_one, &c);
}

/* Opens (creating) a lock file in a folder. */
static int open_lock(const struct mo_env *env, const char *folder, int *fd, moire_error *err) {
    char path[PATH_CAP + 32];
    snprintf(path, sizeof path, "%s/lock", folder);
    *fd = env->sys->open(env->sys->self, path, O_RDWR | O_CREAT | O_NOFOLLOW, 0644);
    return *fd < 0 ? mo_trusted_fail(err, "create", path, *fd) : MOIRE_OK;
}

int mo_writer_lock(const struct mo_writer *w, moire_error *err) {
    int fd;
    if (open_lock(w->env, w->base, &fd, err)) return -1;
    int rc = w->env->sys->lock(w->env->sys->self, fd);
    if (rc >= 0) return fd;
    quiet_close(w->env, fd);
    mo_trusted_fail(err, "lock", w->base, rc);
    return -1;
}

void mo_writer_unlock(const struct mo_writer *w, int lock) {
    quiet_close(w->env, lock);
}

/* The first work folder that no living writer holds; also one that a killed writer left. */
static int take_work(struct mo_writer *w, moire_error *err) {
    for (int i = 0; i < WORK_FOLDERS; i++) {
        snprintf(w->work, sizeof w->work, "%s/work-%d", w->base, i);
        int fd;
        int rc = mo_trusted_make(w->env, w->work, err);
        if (!rc) rc = open_lock(w->env, w->work, &fd, err);
        if (rc) return rc;
        if (w->env->sys->try_lock(w->env->sys->self, fd) >= 0) {
            w->work_fd = fd;
            clear_work(w);
            return MOIRE_OK;
        }
        quiet_close(w->env, fd);
    }
    return mo_fail(err, MOIRE_ESTORE, "'%.200s': %d other compilations are running", w->base, WORK_FOLDERS);
}

static int set_up(struct mo_writer *w, const char *path, const char *cpu, moire_error *err) {
    if (snprintf(w->base, sizeof w->base, "%s/v1/%s", path, cpu) >= (int)sizeof w->base - 128)
        return mo_fail(err, MOIRE_ESTORE, "path of the store is too long");
    int rc = mo_trusted_make(w->env, w->base, err);
    if (!rc) rc = check_trust(w->env, w->base, err);
    int lock = rc ? -1 : mo_writer_lock(w, err);
    if (!rc && lock < 0) rc = MOIRE_ESTORE;
    if (!rc) rc = take_work(w, err);
    mo_writer_unlock(w, lock);
    return rc;
}

int mo_writer_open(const struct mo_env *env, const char *path, struct mo_writer **out, moire_error *err) {
    char here[MO_CPU_FOLDER];
    mo_cpu_folder(here);
    return mo_writer_open_for(env, path, here, out, err);
}

int mo_writer_open_for(const struct mo_env *env, const char *path, const char *cpu, struct mo_writer **out,
                       moire_error *err) {
    *out = NULL;
    struct mo_writer *w = mo_alloc(env, sizeof *w);
    if (!w) return mo_fail(err, MOIRE_ENOMEM, "out of memory opening the variant store");
    w->env = env;
    w->work_fd = -1;
    int rc =
        path && *path ? set_up(w, path, cpu, err) : mo_fail(err, MOIRE_ESTORE, "path of the store is empty");
    if (rc) {
        mo_writer_close(w);
        return rc;
    }
    *out = w;
    return MOIRE_OK;
}

void mo_writer_close(struct mo_writer *w) {
    if (!w) return;
    if (w->work_fd >= 0) clear_work(w);
    quiet_close(w->env, w->work_fd); /* closing releases the lock */
    mo_free(w->env, w);
}

const char *mo_writer_work(const struct mo_writer *w) {
    return w->work;
}

/* Whether a work folder other than this writer's is held. */
static bool others_work(const struct mo_writer *w) {
    for (int i = 0; i < WORK_FOLDERS; i++) {
        char path[PATH_CAP + 32];
        snprintf(path, sizeof path, "%s/work-%d", w->base, i);
        if (!strcmp(path, w->work)) continue;
        snprintf(path, sizeof path, "%s/work-%d/lock", w->base, i);
        int fd = w->env->sys->open(w->env->sys->self, path, O_RDWR | O_NOFOLLOW, 0);
        bool held = fd >= 0 && w->env->sys->try_lock(w->env->sys->self, fd) < 0;
        quiet_close(w->env, fd);
        if (held) return true;
    }
    return false;
}

int mo_writer_alone(struct mo_writer *w, int (*fn)(void *ctx, moire_error *err), void *ctx,
                    moire_error *err) {
    int lock = mo_writer_lock(w, err);
    if (lock < 0) return MOIRE_ESTORE;
    int rc = others_work(w)
                 ? mo_fail(err, MOIRE_EBUSY, "'%.200s': a compilation is running; try again later", w->base)
                 : fn(ctx, err);
    mo_writer_unlock(w, lock);
    return rc;
}

/* --- publishing --- */

void mo_writer_path(const struct mo_writer *w, const char *name, const char *suffix,
                    char to[MO_WRITER_FILE]) {
    snprintf(to, MO_WRITER_FILE, "%s/%.2s/%s%s", w->base, name, name, suffix);
}

int mo_writer_place(const struct mo_writer *w, const char *to, const void *bytes, size_t n,
                    moire_error *err) {
    char from[PATH_CAP + 32];
    snprintf(from, sizeof from, "%s/publish", w->work);
    int rc = mo_trusted_write(w->env, from, bytes, n, err);
    if (rc) return rc;
    rc = w->env->sys->rename(w->env->sys->self, from, to);
    if (rc >= 0) return MOIRE_OK;
    w->env->sys->unlink(w->env->sys->self, from);
    return mo_trusted_fail(err, "rename to", to, rc);
}

/* Whether <hh>/<name><suffix> is there with these very bytes. */
static bool intact(const struct mo_writer *w, const char *key, const char *suffix, const void *bytes,
                   size_t n) {
    char folder[PATH_CAP + 8], file[MO_SHA256_HEX + 16], *found = NULL;
    size_t got = 0;
    snprintf(folder, sizeof folder, "%s/%.2s", w->base, key);
    snprintf(file, sizeof file, "%s%s", key, suffix);
    int fd;
    if (mo_trusted_walk(w->env, folder, &fd, NULL) || fd < 0) return false;
    mo_trusted_read(w->env, fd, file, w->env->limits.variant_bytes, &found, &got, NULL, NULL);
    quiet_close(w->env, fd);
    bool same = found && (!bytes || (got == n && !memcmp(found, bytes, n)));
    if (same && !bytes) {
        struct mo_store_entry entry;
        char hex[MO_SHA256_HEX];
        same = !mo_store_parse_entry(found, got, &entry, NULL);
        mo_store_key(&entry, hex);
        same = same && !strcmp(hex, key);
    }
    mo_free(w->env, found);
    return same;
}

int mo_writer_subfolder(const struct mo_writer *w, const char *name, char subfolder[MO_WRITER_PATH + 8],
                        moire_error *err) {
    snprintf(subfolder, PATH_CAP + 8, "%s/%.2s", w->base, name);
    return mo_trusted_make(w->env, subfolder, err);
}

int mo_writer_add(struct mo_writer *w, const struct mo_store_entry *entry, const void *object,
                  const char *source, char key[MO_SHA256_HEX], moire_error *err) {
    char subfolder[PATH_CAP + 8], to[MO_WRITER_FILE];
    size_t n = (size_t)entry->object_bytes;
    mo_store_key(entry, key);
    if (intact(w, key, ".json", NULL, 0) && intact(w, key, ".so", object, n)) return MOIRE_OK;
    int lock = mo_writer_lock(w, err);
    if (lock < 0) return MOIRE_ESTORE;
    int rc = mo_writer_subfolder(w, key, subfolder, err);
    mo_writer_path(w, key, ".c", to);
    if (!rc) rc = mo_writer_place(w, to, source, strlen(source), err);
    mo_writer_path(w, key, ".so", to);
    if (!rc) rc = mo_writer_place(w, to, object, n, err);
    if (!rc) rc = mo_writer_place_entry(w, key, entry, err); /* last: it vouches for the object */
    if (!rc) rc = mo_trusted_sync(w->env, subfolder, err);
    mo_writer_unlock(w, lock);
    return rc;
}

/* A file that is being streamed.  It is written by aligned blocks of a large page: file systems with large
 * folios then cache it in such pages, and who maps it is spared most misses of the TLB. */
struct stream {
    const struct mo_env *env;
    const char *path;
    int fd;
    moire_error *err;
    char *block;
    size_t used;
};

static int flush_stream(struct stream *s) {
    int rc = mo_trusted_put(s->env, s->fd, s->block, s->used);
    s->used = 0;
    return rc < 0 ? mo_trusted_fail(s->err, "write", s->path, rc) : MOIRE_OK;
}

static int put_stream(void *ctx, const void *bytes, size_t n) {
    struct stream *s = ctx;
    const char *from = bytes;
    for (int rc; n > 0;) {
        size_t part = n < STREAM_BLOCK - s->used ? n : STREAM_BLOCK - s->used;
        memcpy(s->block + s->used, from, part);
        s->used += part, from += part, n -= part;
        if (s->used == STREAM_BLOCK && (rc = flush_stream(s))) return rc;
    }
    return MOIRE_OK;
}

/* All that `fill` puts, down to the disk. */
static int stream_to(struct stream *s,
                     int (*fill)(void *ctx, mo_writer_put *put, void *put_ctx, moire_error *err), void *ctx) {
    const struct mo_sys *sys = s->env->sys;
    s->block = mo_alloc(s->env, STREAM_BLOCK);
    if (!s->block) return mo_fail(s->err, MOIRE_ENOMEM, "out of memory while writing %s", s->path);
    int rc = fill(ctx, put_stream, s, s->err);
    if (!rc) rc = flush_stream(s);
    mo_free(s->env, s->block);
    int sync = rc ? 0 : sys->fsync(sys->self, s->fd);
    return !rc && sync < 0 ? mo_trusted_fail(s->err, "write", s->path, sync) : rc;
}

int mo_writer_stream(struct mo_writer *w, const char *name, const char *suffix,
                     int (*fill)(void *ctx, mo_writer_put *put, void *put_ctx, moire_error *err), void *ctx,
                     moire_error *err) {
    const struct mo_sys *sys = w->env->sys;
    char from[PATH_CAP + 32], to[MO_WRITER_FILE], subfolder[PATH_CAP + 8];
    snprintf(from, sizeof from, "%s/stream", w->work);
    mo_writer_path(w, name, suffix, to);
    sys->unlink(sys->self, from);
    int fd = sys->open(sys->self, from, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0444);
    if (fd < 0) return mo_trusted_fail(err, "create", from, fd);
    struct stream stream = {.env = w->env, .path = from, .fd = fd, .err = err};
    int rc = stream_to(&stream, fill, ctx);
    sys->close(sys->self, fd);
    int lock = rc ? -1 : mo_writer_lock(w, err);
    if (!rc && lock < 0) rc = MOIRE_ESTORE;
    if (!rc) rc = mo_writer_subfolder(w, name, subfolder, err);
    int moved = rc ? 0 : sys->rename(sys->self, from, to);
    if (!rc && moved < 0) rc = mo_trusted_fail(err, "rename to", to, moved);
    if (!rc) rc = mo_trusted_sync(w->env, subfolder, err);
    if (rc) sys->unlink(sys->self, from);
    mo_writer_unlock(w, lock);
    return rc;
}

void mo_writer_remove(struct mo_writer *w, const char *name, const char *suffix) {
    char path[MO_WRITER_FILE];
    mo_writer_path(w, name, suffix, path);
    w->env->sys->unlink(w->env->sys->self, path);
}

int mo_writer_withdraw(struct mo_writer *w, const struct mo_store_index *index, const char *why,
                       moire_error *err) {
    struct mo_store_index x = *index;
    struct mo_ranked was = {.verdict = "wrong in a model"};
    char layer[MO_SHA256_HEX];
    memcpy(was.family, x.family, sizeof was.family);
    memcpy(was.knobs, x.knobs, sizeof was.knobs);
    x.best[0] = x.family[0] = x.knobs[0] = 0;
    x.min_ns = 0;
    snprintf(x.withdrawn, sizeof x.withdrawn, "%s", why);
    int rc = mo_writer_set(w, &x, &was, 1, err);
    mo_store_layer(x.signature, x.isa, layer);
    if (!rc) mo_writer_remove(w, layer, ".front.json"); /* without an index nobody asks for it */
    return rc;
}
