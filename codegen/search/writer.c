/* SPDX-License-Identifier: Apache-2.0
 * writer.c - files into the variant store: work folder, lock, rename; see writer.h. */
#define _GNU_SOURCE
#include "codegen/search/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "variants/cpu.h"

enum { PATH_CAP = 4096, WORK_FOLDERS = 64, STREAM_BLOCK = 2 << 20 };

struct mo_writer {
    const struct mo_env *env;
    char base[PATH_CAP]; /* <store>/v1/<cpu> */
    char work[PATH_CAP + 16];
    int lock_fd, work_fd; /* of base/lock and work/lock */
};

static int failed(moire_error *err, const char *what, const char *path, int rc) {
    const char *hint = rc == -ENOSPC || rc == -EDQUOT ? "; free some space and run the command again"
                       : rc == -EACCES || rc == -EROFS || rc == -EPERM
                           ? "; give a writable store with --store"
                           : "";
    return mo_fail(err, MOIRE_ESTORE, "cannot %s '%.250s': %s%s", what, path, strerror(-rc), hint);
}

static void quiet_close(const struct mo_env *env, int fd) {
    if (fd >= 0) env->sys->close(env->sys->self, fd);
}

static int make_folder(const struct mo_env *env, const char *path, moire_error *err) {
    int rc = env->sys->mkdir(env->sys->self, path, 0755);
    return rc < 0 && rc != -EEXIST ? failed(err, "create folder", path, rc) : MOIRE_OK;
}

/* Creates path and the folders above it that are missing. */
static int make_folders(const struct mo_env *env, const char *path, moire_error *err) {
    char part[PATH_CAP];
    size_t n = strlen(path);
    if (n >= sizeof part) return mo_fail(err, MOIRE_ESTORE, "path of the store is too long");
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i]) continue;
        memcpy(part, path, i);
        part[i] = 0;
        int fd = env->sys->open(env->sys->self, part, O_PATH | O_DIRECTORY, 0);
        quiet_close(env, fd);
        int rc = fd >= 0 ? MOIRE_OK : make_folder(env, part, err);
        if (rc) return rc;
    }
    return MOIRE_OK;
}

static int check_trust(const struct mo_env *env, const char *path, moire_error *err) {
    int fd;
    int rc = mo_store_walk(env, path, &fd, err);
    quiet_close(env, fd);
    if (!rc && fd < 0) rc = mo_fail(err, MOIRE_ESTORE, "it was removed meanwhile");
    return rc ? mo_fail_context(err, rc, "variant store '%.150s'", path) : MOIRE_OK;
}

static int sync_folder(const struct mo_env *env, const char *path, moire_error *err) {
    const struct mo_sys *sys = env->sys;
    int fd = sys->open(sys->self, path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) return failed(err, "open folder", path, fd);
    int rc = sys->fsync(sys->self, fd);
    sys->close(sys->self, fd);
    return rc < 0 && rc != -EINVAL ? failed(err, "sync folder", path, rc) : MOIRE_OK;
}

static int write_all(const struct mo_env *env, int fd, const char *bytes, size_t n) {
    while (n) {
        ssize_t put = env->sys->write(env->sys->self, fd, bytes, n);
        if (put <= 0) return put ? (int)put : -EIO;
        bytes += put;
        n -= (size_t)put;
    }
    return 0;
}

int mo_write_file(const struct mo_env *env, const char *path, const void *bytes, size_t n, moire_error *err) {
    const struct mo_sys *sys = env->sys;
    sys->unlink(sys->self, path);
    int fd = sys->open(sys->self, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0444);
    if (fd < 0) return failed(err, "create", path, fd);
    int rc = write_all(env, fd, bytes, n);
    if (rc >= 0) rc = sys->fsync(sys->self, fd);
    int closed = sys->close(sys->self, fd);
    if (rc >= 0) rc = closed;
    if (rc >= 0) return MOIRE_OK;
    sys->unlink(sys->self, path);
    return failed(err, "write", path, rc);
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
    return *fd < 0 ? failed(err, "create", path, *fd) : MOIRE_OK;
}

/* The first work folder that no living writer holds; also one that a killed writer left. */
static int take_work(struct mo_writer *w, moire_error *err) {
    for (int i = 0; i < WORK_FOLDERS; i++) {
        snprintf(w->work, sizeof w->work, "%s/work-%d", w->base, i);
        int fd;
        int rc = make_folder(w->env, w->work, err);
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

static int set_up(struct mo_writer *w, const char *path, moire_error *err) {
    char cpu[MO_CPU_FOLDER];
    mo_cpu_folder(cpu);
    if (snprintf(w->base, sizeof w->base, "%s/v1/%s", path, cpu) >= (int)sizeof w->base - 128)
        return mo_fail(err, MOIRE_ESTORE, "path of the store is too long");
    int rc = make_folders(w->env, w->base, err);
    if (!rc) rc = check_trust(w->env, w->base, err);
    if (!rc) rc = open_lock(w->env, w->base, &w->lock_fd, err);
    return rc ? rc : take_work(w, err);
}

int mo_writer_open(const struct mo_env *env, const char *path, struct mo_writer **out, moire_error *err) {
    *out = NULL;
    struct mo_writer *w = mo_alloc(env, sizeof *w);
    if (!w) return mo_fail(err, MOIRE_ENOMEM, "out of memory opening the variant store");
    w->env = env;
    w->lock_fd = w->work_fd = -1;
    int rc = path && *path ? set_up(w, path, err) : mo_fail(err, MOIRE_ESTORE, "path of the store is empty");
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
    quiet_close(w->env, w->lock_fd);
    mo_free(w->env, w);
}

const char *mo_writer_work(const struct mo_writer *w) {
    return w->work;
}

/* --- publishing --- */

/* Takes the store's lock on a descriptor of its own (released by closing it); -1 and an error otherwise. */
static int lock_store(const struct mo_writer *w, moire_error *err) {
    int fd;
    if (open_lock(w->env, w->base, &fd, err)) return -1;
    int rc = w->env->sys->lock(w->env->sys->self, fd);
    if (rc >= 0) return fd;
    quiet_close(w->env, fd);
    failed(err, "lock", w->base, rc);
    return -1;
}

/* Writes a file in the work folder and renames it to <hh>/<name><suffix>. */
static int place(const struct mo_writer *w, const char *name, const char *suffix, const void *bytes, size_t n,
                 moire_error *err) {
    char from[PATH_CAP + 32], to[PATH_CAP + 128];
    snprintf(from, sizeof from, "%s/publish", w->work);
    snprintf(to, sizeof to, "%s/%.2s/%s%s", w->base, name, name, suffix);
    int rc = mo_write_file(w->env, from, bytes, n, err);
    if (rc) return rc;
    rc = w->env->sys->rename(w->env->sys->self, from, to);
    if (rc >= 0) return MOIRE_OK;
    w->env->sys->unlink(w->env->sys->self, from);
    return failed(err, "rename to", to, rc);
}

/* Body to envelope to file. */
static int place_json(const struct mo_writer *w, const char *name, const char *suffix, json_t *body,
                      moire_error *err) {
    char *text = body ? json_dumps(body, JSON_INDENT(1) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9)) : NULL;
    char *file = NULL, hex[MO_SHA256_HEX];
    size_t cap = text ? strlen(text) + 128 : 0;
    if (text) file = mo_alloc(w->env, cap);
    int rc = MOIRE_OK;
    if (!file) {
        rc = mo_fail(err, MOIRE_ENOMEM, "out of memory writing a description");
    } else {
        mo_sha256_hex(text, strlen(text), hex);
        int n = snprintf(file, cap, "{\"sha256\":\"%s\",\n\"body\":%s}\n", hex, text);
        rc = place(w, name, suffix, file, (size_t)n, err);
    }
    mo_free(w->env, file);
    free(text);
    return rc;
}

static json_t *entry_json(const struct mo_store_entry *e) {
    char cpu[MO_CPU_TEXT];
    mo_cpu_fingerprint(cpu);
    return json_pack("{si si si ss ss ss ss ss ss ss ss sI sI sf sf sf}", "format", MO_STORE_FORMAT, "abi",
                     e->abi, "generator", e->generator, "isa", mo_isa_name(e->isa), "signature", e->signature,
                     "family", e->family, "knobs", e->knobs, "compiler", e->compiler, "flags", e->flags,
                     "cpu", cpu, "object_sha256", e->object, "object_bytes", (json_int_t)e->object_bytes,
                     "source_bytes", (json_int_t)e->source_bytes, "min_ns", e->min_ns, "generic_ns",
                     e->generic_ns, "gflops", e->gflops);
}

/* Whether <hh>/<name><suffix> is there with these very bytes. */
static bool intact(const struct mo_writer *w, const char *key, const char *suffix, const void *bytes,
                   size_t n) {
    char folder[PATH_CAP + 8], file[MO_SHA256_HEX + 16], *found = NULL;
    size_t got = 0;
    snprintf(folder, sizeof folder, "%s/%.2s", w->base, key);
    snprintf(file, sizeof file, "%s%s", key, suffix);
    int fd;
    if (mo_store_walk(w->env, folder, &fd, NULL) || fd < 0) return false;
    mo_store_read(w->env, fd, file, w->env->limits.variant_bytes, &found, &got, NULL, NULL);
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

static int make_shelf(const struct mo_writer *w, const char *name, char shelf[PATH_CAP + 8],
                      moire_error *err) {
    snprintf(shelf, PATH_CAP + 8, "%s/%.2s", w->base, name);
    return make_folder(w->env, shelf, err);
}

int mo_writer_add(struct mo_writer *w, const struct mo_store_entry *entry, const void *object,
                  const char *source, char key[MO_SHA256_HEX], moire_error *err) {
    char shelf[PATH_CAP + 8];
    size_t n = (size_t)entry->object_bytes;
    mo_store_key(entry, key);
    if (intact(w, key, ".json", NULL, 0) && intact(w, key, ".so", object, n)) return MOIRE_OK;
    int lock = lock_store(w, err);
    if (lock < 0) return MOIRE_ESTORE;
    int rc = make_shelf(w, key, shelf, err);
    if (!rc) rc = place(w, key, ".c", source, strlen(source), err);
    if (!rc) rc = place(w, key, ".so", object, n, err);
    json_t *body = entry_json(entry);
    if (!rc) rc = place_json(w, key, ".json", body, err); /* last: it vouches for the object */
    json_decref(body);
    if (!rc) rc = sync_folder(w->env, shelf, err);
    quiet_close(w->env, lock);
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
    int rc = write_all(s->env, s->fd, s->block, s->used);
    s->used = 0;
    return rc < 0 ? failed(s->err, "write", s->path, rc) : MOIRE_OK;
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
    return !rc && sync < 0 ? failed(s->err, "write", s->path, sync) : rc;
}

int mo_writer_stream(struct mo_writer *w, const char *name, const char *suffix,
                     int (*fill)(void *ctx, mo_writer_put *put, void *put_ctx, moire_error *err), void *ctx,
                     moire_error *err) {
    const struct mo_sys *sys = w->env->sys;
    char from[PATH_CAP + 32], to[PATH_CAP + 128], shelf[PATH_CAP + 8];
    snprintf(from, sizeof from, "%s/stream", w->work);
    snprintf(to, sizeof to, "%s/%.2s/%s%s", w->base, name, name, suffix);
    sys->unlink(sys->self, from);
    int fd = sys->open(sys->self, from, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0444);
    if (fd < 0) return failed(err, "create", from, fd);
    struct stream stream = {.env = w->env, .path = from, .fd = fd, .err = err};
    int rc = stream_to(&stream, fill, ctx);
    sys->close(sys->self, fd);
    int lock = rc ? -1 : lock_store(w, err);
    if (!rc && lock < 0) rc = MOIRE_ESTORE;
    if (!rc) rc = make_shelf(w, name, shelf, err);
    int moved = rc ? 0 : sys->rename(sys->self, from, to);
    if (!rc && moved < 0) rc = failed(err, "rename to", to, moved);
    if (!rc) rc = sync_folder(w->env, shelf, err);
    if (rc) sys->unlink(sys->self, from);
    quiet_close(w->env, lock);
    return rc;
}

void mo_writer_remove(struct mo_writer *w, const char *name, const char *suffix) {
    char path[PATH_CAP + 128];
    snprintf(path, sizeof path, "%s/%.2s/%s%s", w->base, name, name, suffix);
    w->env->sys->unlink(w->env->sys->self, path);
}

/* A description that may replace an older one; takes over the body. */
static int set_json(struct mo_writer *w, const char *name, const char *suffix, json_t *body,
                    moire_error *err) {
    char shelf[PATH_CAP + 8];
    int lock = lock_store(w, err), rc = lock < 0 ? MOIRE_ESTORE : make_shelf(w, name, shelf, err);
    if (!rc) rc = place_json(w, name, suffix, body, err);
    json_decref(body);
    if (!rc) rc = sync_folder(w->env, shelf, err);
    quiet_close(w->env, lock);
    return rc;
}

int mo_writer_stamp(struct mo_writer *w, const char *name, const struct mo_store_stamp *stamp,
                    moire_error *err) {
    return set_json(
        w, name, ".stamp.json",
        json_pack("{si ss ss}", "format", MO_STORE_FORMAT, "model", stamp->model, "outside", stamp->outside),
        err);
}

static json_t *ranked_json(const struct mo_ranked *ranked, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{ss ss sf sf ss}", "family", ranked[i].family, "knobs",
                                              ranked[i].knobs, "predicted_ns", ranked[i].predicted_ns,
                                              "min_ns", ranked[i].min_ns, "verdict", ranked[i].verdict));
    return list;
}

int mo_writer_set(struct mo_writer *w, const struct mo_store_index *x, const struct mo_ranked *ranked, int n,
                  moire_error *err) {
    char layer[MO_SHA256_HEX];
    mo_store_layer(x->signature, x->isa, layer);
    json_t *body =
        json_pack("{si si si ss ss ss ss ss si sI sI sf sf so}", "format", MO_STORE_FORMAT, "abi", x->abi,
                  "generator", x->generator, "isa", mo_isa_name(x->isa), "signature", x->signature, "best",
                  x->best, "family", x->family, "knobs", x->knobs, "tried", x->tried, "source_bytes",
                  (json_int_t)x->source_bytes, "flops", (json_int_t)x->flops, "min_ns", x->min_ns,
                  "generic_ns", x->generic_ns, "ranked", ranked_json(ranked, n));
    return set_json(w, layer, ".best.json", body, err);
}

static json_t *point_json(const struct mo_store_point *p) {
    json_t *ns = json_array();
    for (int i = 0; i < MO_STORE_LEVELS; i++)
        json_array_append_new(ns, json_real(p->ns[i]));
    return json_pack("{ss ss ss ss sI sI sI sI sI so}", "key", p->key, "family", p->family, "knobs", p->knobs,
                     "state", mo_point_state_name(p->state), "packing", (json_int_t)p->packing, "units",
                     (json_int_t)p->units, "parallelism_milli", (json_int_t)p->parallelism_milli,
                     "block_bytes", (json_int_t)p->block_bytes, "l3_bytes", (json_int_t)p->l3_bytes, "ns",
                     ns);
}

int mo_writer_front(struct mo_writer *w, const struct mo_store_front *f, moire_error *err) {
    char layer[MO_SHA256_HEX];
    json_t *points = json_array();
    mo_store_layer(f->signature, f->isa, layer);
    for (int i = 0; i < f->n; i++)
        json_array_append_new(points, point_json(&f->point[i]));
    json_t *body = json_pack("{si si si ss ss sf so}", "format", MO_STORE_FORMAT, "abi", f->abi, "generator",
                             f->generator, "isa", mo_isa_name(f->isa), "signature", f->signature, "share_ns",
                             f->share_ns, "points", points);
    return set_json(w, layer, ".front.json", body, err);
}
