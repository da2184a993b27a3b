/* SPDX-License-Identifier: Apache-2.0
 * store.c - finds, checks, loads and remembers compiled variants; see store.h for the rules.
 *
 * Answers, good and bad, are kept in a small hash table under one lock: a layer is looked up once, and a bad
 * entry costs one log line however many tenants ask for it.  The lock is held while loading; lookups happen
 * when plans are built, never on the path of a query. */
#include "variants/store.h"

#include <stdio.h>
#include <string.h>
#include "variants/cpu.h"
#include "variants/store_format.h"

enum { BUCKETS = 256 };

struct answer {
    struct answer *next;
    char name[MO_SHA256_HEX]; /* of a layer: its best variant; of an entry: that one */
    char key[MO_SHA256_HEX];  /* of the entry it found */
    bool found;
    void *object;
    struct mo_variant variant;
};

/* What changes while the store is in use. */
struct cache {
    _Atomic uint32_t lock; /* 0 free, 1 held, 2 held and somebody waits */
    struct answer *bucket[BUCKETS];
    struct mo_store_stats stats;
};

struct mo_store {
    const struct mo_env *env;
    struct mo_env env_copy;
    int folder; /* of this CPU; -1: nothing there */
    struct cache *cache;
    char place[]; /* its path */
};

static void lock(const struct mo_store *store) {
    _Atomic uint32_t *word = &store->cache->lock;
    uint32_t seen = 0;
    if (atomic_compare_exchange_strong(word, &seen, 1)) return;
    while (atomic_exchange(word, 2))
        store->env->sys->futex_wait(store->env->sys->self, word, 2, 0);
}

static void unlock(const struct mo_store *store) {
    _Atomic uint32_t *word = &store->cache->lock;
    if (atomic_exchange(word, 0) == 2) store->env->sys->futex_wake(store->env->sys->self, word, 1);
}

/* Opens v1/<cpu> below the store's folder; -1 when it is not there yet. */
static int open_cpu_folder(const struct mo_env *env, int root, const char cpu[MO_CPU_FOLDER], int *folder,
                           moire_error *err) {
    int version;
    int rc = mo_trusted_enter(env, root, "v1", &version, err);
    if (rc || version < 0) return rc;
    rc = mo_trusted_enter(env, version, cpu, folder, err);
    env->sys->close(env->sys->self, version);
    return rc;
}

int mo_store_open(const struct mo_env *env, const char *path, struct mo_store **out, moire_error *err) {
    *out = NULL;
    char cpu[MO_CPU_FOLDER];
    mo_cpu_folder(cpu);
    const size_t place = (path ? strlen(path) : 0) + sizeof "/v1/" + strlen(cpu);
    struct mo_store *store = mo_alloc(env, sizeof *store + place);
    struct cache *cache = store ? mo_alloc(env, sizeof *cache) : NULL;
    if (!cache) {
        mo_free(env, store);
        return mo_fail(err, MOIRE_ENOMEM, "out of memory opening the variant store");
    }
    store->env_copy = *env;
    store->env = &store->env_copy;
    store->cache = cache;
    store->folder = -1;
    snprintf(store->place, place, "%s/v1/%s", path ? path : "", cpu);
    int root;
    int rc = mo_trusted_walk(env, path, &root, err);
    if (!rc && root >= 0) {
        rc = open_cpu_folder(env, root, cpu, &store->folder, err);
        env->sys->close(env->sys->self, root);
    }
    if (rc) {
        mo_store_close(store);
        return mo_fail_context(err, rc, "variant store '%.150s'", path ? path : "");
    }
    *out = store;
    return MOIRE_OK;
}

bool mo_store_is_there(const struct mo_store *store) {
    return store->folder >= 0;
}

void mo_store_close(struct mo_store *store) {
    if (!store) return;
    struct mo_env env = store->env_copy;
    for (int i = 0; i < BUCKETS; i++) {
        for (struct answer *a = store->cache->bucket[i]; a;) {
            struct answer *next = a->next;
            if (a->object) env.sys->dl_close(env.sys->self, a->object);
            mo_free(&env, a);
            a = next;
        }
    }
    if (store->folder >= 0) env.sys->close(env.sys->self, store->folder);
    mo_free(&env, store->cache);
    mo_free(&env, store);
}

/* One lookup in progress. */
struct search {
    const struct mo_store *store;
    const char *signature;
    enum mo_isa isa;
    bool stale;
    moire_error err;
};

static int stale(struct search *s, const char *what) {
    s->stale = true;
    return mo_fail(&s->err, MOIRE_ESTORE, "%s; run `moire compile` again", what);
}

/* Reads <hh>/<name>.<suffix>; *bytes = NULL when it is not there. */
static int read_named(struct search *s, const char *name, const char *suffix, int64_t limit, char **bytes,
                      size_t *n, struct mo_trusted_open *open) {
    const struct mo_env *env = s->store->env;
    char folder_name[3] = {name[0], name[1], 0}, file[MO_SHA256_HEX + 16];
    *bytes = NULL;
    int folder;
    int rc = mo_trusted_enter(env, s->store->folder, folder_name, &folder, &s->err);
    if (rc || folder < 0) return rc;
    snprintf(file, sizeof file, "%s%s", name, suffix);
    rc = mo_trusted_read(env, folder, file, limit, bytes, n, open, &s->err);
    env->sys->close(env->sys->self, folder);
    return rc;
}

/* The index of the layer; best is empty when there is none. */
static int read_index(struct search *s, const char *layer, struct mo_store_index *index) {
    char *bytes;
    size_t n = 0;
    *index = (struct mo_store_index){0};
    int rc = read_named(s, layer, ".best.json", s->store->env->limits.variant_json_bytes, &bytes, &n, NULL);
    if (rc || !bytes) return rc;
    rc = mo_store_parse_index(bytes, n, index, &s->err);
    mo_free(s->store->env, bytes);
    if (rc) return rc;
    if (index->abi != MO_KERNEL_ABI || index->generator != MO_GENERATOR_VERSION)
        return stale(s, "index of another version of moire");
    if (strcmp(index->signature, s->signature) || index->isa != s->isa)
        return mo_fail(&s->err, MOIRE_ESTORE, "index of another layer");
    return MOIRE_OK;
}

static int read_entry(struct search *s, const char *key, struct mo_store_entry *entry) {
    char *bytes, hex[MO_SHA256_HEX];
    size_t n = 0;
    int rc = read_named(s, key, ".json", s->store->env->limits.variant_json_bytes, &bytes, &n, NULL);
    if (rc) return rc;
    if (!bytes) return mo_fail(&s->err, MOIRE_ESTORE, "its description is missing");
    rc = mo_store_parse_entry(bytes, n, entry, &s->err);
    mo_free(s->store->env, bytes);
    if (rc) return rc;
    mo_store_key(entry, hex);
    if (strcmp(hex, key) || strcmp(entry->signature, s->signature))
        return mo_fail(&s->err, MOIRE_ESTORE, "description of another variant");
    if (entry->abi != MO_KERNEL_ABI || entry->generator != MO_GENERATOR_VERSION)
        return stale(s, "made by another version of moire");
    if (!mo_isa_covers(s->isa, entry->isa)) return stale(s, "needs a higher ISA level than allowed");
    return MOIRE_OK;
}

static int load_object(struct search *s, const char *key, const struct mo_store_entry *entry,
                       struct answer *a) {
    const struct mo_env *env = s->store->env;
    char *bytes, file[MO_SHA256_HEX + 8];
    struct mo_store_object o = {.label = entry->signature, .folder = s->store->place, .file = file};
    int rc = read_named(s, key, ".so", env->limits.variant_bytes, &bytes, &o.n, &o.open);
    if (rc) return rc;
    if (!bytes) return mo_fail(&s->err, MOIRE_ESTORE, "its object is missing");
    snprintf(file, sizeof file, "%.2s/%s.so", key, key);
    o.bytes = bytes;
    mo_sha256_hex(bytes, o.n, o.digest);
    if ((int64_t)o.n != entry->object_bytes || strcmp(o.digest, entry->object))
        rc = mo_fail(&s->err, MOIRE_ESTORE, "checksum of the object does not match");
    if (!rc) rc = mo_store_load(env, &o, &a->object, &a->variant, &s->err);
    mo_free(env, bytes);
    if (o.open.fd >= 0) env->sys->close(env->sys->self, o.open.fd);
    return rc;
}

static int load_entry(struct search *s, const char *key, struct answer *a) {
    struct mo_store_entry entry = {0};
    int rc = read_entry(s, key, &entry);
    if (!rc) rc = load_object(s, key, &entry, a);
    a->found = !rc;
    memcpy(a->key, key, sizeof a->key);
    return rc;
}

static int search_best(struct search *s, const char *layer, struct answer *a) {
    struct mo_store_index index;
    int rc = read_index(s, layer, &index);
    return rc || !*index.best ? rc : load_entry(s, index.best, a);
}

/* layer: it was looked for the layer's best, not for one more version. */
static void count(const struct search *s, const struct answer *a, bool layer, int rc) {
    struct mo_store_stats *stats = &s->store->cache->stats;
    if (a->found && layer) stats->found++;
    if (!rc && !a->found) stats->missing++;
    if (rc && s->stale) stats->stale++;
    if (rc && !s->stale) stats->damaged++;
    if (rc)
        mo_log(s->store->env, MOIRE_LOG_WARN, "variant store: %.255s: skipped, generic kernel serves: %s",
               s->signature, s->err.message);
}

/* Under the lock: the remembered answer of that name, or a new one; NULL when out of memory. */
static const struct answer *answer_for(const struct mo_store *store, const char *signature, enum mo_isa isa,
                                       const char *name,
                                       int (*find)(struct search *s, const char *name, struct answer *a)) {
    int bucket = 0;
    for (int i = 0; i < 2; i++)
        bucket = bucket * 16 + (name[i] <= '9' ? name[i] - '0' : name[i] - 'a' + 10);
    for (struct answer *a = store->cache->bucket[bucket]; a; a = a->next)
        if (!strcmp(a->name, name)) return a;
    struct answer *a = mo_alloc(store->env, sizeof *a);
    if (!a) return NULL;
    memcpy(a->name, name, sizeof a->name);
    struct search s = {.store = store, .signature = signature, .isa = isa};
    int rc = find(&s, name, a);
    count(&s, a, find == search_best, rc);
    if (rc == MOIRE_ENOMEM) { /* not the entry's fault: ask again next time */
        mo_free(store->env, a);
        return NULL;
    }
    a->next = store->cache->bucket[bucket];
    store->cache->bucket[bucket] = a;
    return a;
}

static const struct answer *best_answer(const struct mo_store *store, const char *signature,
                                        enum mo_isa isa) {
    char layer[MO_SHA256_HEX];
    mo_store_layer(signature, isa, layer);
    return answer_for(store, signature, isa, layer, search_best);
}

bool mo_store_find(const struct mo_store *store, const char *signature, enum mo_isa isa,
                   struct mo_variant *out) {
    if (!store || store->folder < 0 || strlen(signature) >= MO_STORE_TEXT) return false;
    lock(store);
    const struct answer *a = best_answer(store, signature, isa);
    bool found = a && a->found;
    if (found) *out = a->variant;
    unlock(store);
    return found;
}

bool mo_store_peek(const struct mo_store *store, const char *signature, enum mo_isa isa,
                   struct mo_store_index *index) {
    if (!store || store->folder < 0 || strlen(signature) >= MO_STORE_TEXT) return false;
    char layer[MO_SHA256_HEX];
    mo_store_layer(signature, isa, layer);
    struct search s = {.store = store, .signature = signature, .isa = isa};
    struct mo_variant variant;
    if (read_index(&s, layer, index) || !index->signature[0]) return false;
    return !index->best[0] || mo_store_find(store, signature, isa, &variant);
}

static int read_front(struct search *s, struct mo_store_front *front) {
    char *bytes, layer[MO_SHA256_HEX];
    size_t n = 0;
    memset(front, 0, sizeof *front);
    mo_store_layer(s->signature, s->isa, layer);
    int rc = read_named(s, layer, ".front.json", s->store->env->limits.variant_json_bytes, &bytes, &n, NULL);
    if (rc || !bytes) return rc;
    rc = mo_store_parse_front(bytes, n, front, &s->err);
    mo_free(s->store->env, bytes);
    if (!rc && (front->abi != MO_KERNEL_ABI || front->generator != MO_GENERATOR_VERSION))
        rc = stale(s, "versions of another version of moire");
    if (!rc && (strcmp(front->signature, s->signature) || front->isa != s->isa))
        rc = mo_fail(&s->err, MOIRE_ESTORE, "versions of another layer");
    return rc;
}

bool mo_store_read_front(const struct mo_store *store, const char *signature, enum mo_isa isa,
                         struct mo_store_front *out) {
    struct search s = {.store = store, .signature = signature, .isa = isa};
    if (!store || store->folder < 0 || strlen(signature) >= MO_STORE_TEXT) return false;
    int rc = read_front(&s, out);
    if (rc) mo_log(store->env, MOIRE_LOG_WARN, "variant store: %.255s: %s", signature, s.err.message);
    return !rc && out->signature[0];
}

/* Under the lock.  An older search may have left a front whose first version is not the best any more. */
static int take_versions(const struct mo_store *store, const struct mo_store_front *front,
                         struct mo_store_version out[MO_STORE_VERSIONS]) {
    const struct answer *best = best_answer(store, front->signature, front->isa);
    int n = 0;
    for (int i = 0; best && best->found && i < front->n && n < MO_STORE_VERSIONS; i++) {
        const struct mo_store_point *p = &front->point[i];
        if (p->state != MO_POINT_VERSION) continue;
        const struct answer *a = best;
        if (!n && strcmp(p->key, best->key)) return 0;
        if (n) a = answer_for(store, front->signature, front->isa, p->key, load_entry);
        if (!a || !a->found) return 0;
        out[n] =
            (struct mo_store_version){.variant = a->variant, .cores = front->cores, .part_ns = p->part_ns};
        for (int level = 0; level < MO_STORE_LEVELS; level++)
            out[n].ns[level] = p->ns[level] > 0 ? p->ns[level] : p->ns[0];
        n++;
    }
    return n;
}

int mo_store_versions(const struct mo_store *store, const char *signature, enum mo_isa isa,
                      struct mo_store_version out[MO_STORE_VERSIONS]) {
    if (!store || store->folder < 0) return 0;
    struct mo_store_front *front = mo_alloc(store->env, sizeof *front);
    int n = 0;
    if (front && mo_store_read_front(store, signature, isa, front)) {
        lock(store);
        n = take_versions(store, front, out);
        unlock(store);
    }
    mo_free(store->env, front);
    return n;
}

int mo_store_open_file(const struct mo_store *store, const char *name, const char *suffix, int64_t limit,
                       struct mo_trusted_file *out, moire_error *err) {
    char folder_name[3] = {name[0], name[1], 0}, file[MO_SHA256_HEX + 16];
    *out = (struct mo_trusted_file){0};
    int folder;
    if (store->folder < 0) return MOIRE_OK;
    int rc = mo_trusted_enter(store->env, store->folder, folder_name, &folder, err);
    if (rc || folder < 0) return rc;
    snprintf(file, sizeof file, "%s%s", name, suffix);
    rc = mo_trusted_map(store->env, folder, file, limit, out, err);
    store->env->sys->close(store->env->sys->self, folder);
    return rc;
}

void mo_store_note(const struct mo_store *store, bool stale) {
    lock(store);
    struct mo_store_stats *stats = &store->cache->stats;
    *(stale ? &stats->stale : &stats->damaged) += 1;
    unlock(store);
}

struct mo_store_stats mo_store_stats(const struct mo_store *store) {
    lock(store);
    struct mo_store_stats stats = store->cache->stats;
    unlock(store);
    return stats;
}
