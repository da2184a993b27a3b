/* SPDX-License-Identifier: Apache-2.0
 * upkeep.c - checking and cleaning the variant store; see upkeep.h. */
#define _GNU_SOURCE
#include "codegen/search/upkeep.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/family/family.h"
#include "codegen/search/writer.h"
#include "runtime/plan/image.h"
#include "variants/cpu.h"

enum { PATH_CAP = 4096, MOST_ROUNDS = 4, FILE_NAME = MO_SHA256_HEX + 16 };

static int by_name(const void *a, const void *b) {
    const struct mo_stored *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (int)x->kind - (int)y->kind;
}

static struct mo_stored *find(const struct mo_upkeep *u, const char *name, enum mo_stored_kind kind) {
    struct mo_stored key = {.kind = kind};
    snprintf(key.name, sizeof key.name, "%s", name);
    return u->n ? bsearch(&key, u->item, (size_t)u->n, sizeof key, by_name) : NULL;
}

/* --- what is needed --- */
static void mark(struct mo_stored *item, enum mo_stored_state state, const char *why) {
    item->state = state;
    snprintf(item->why, sizeof item->why, "%.*s", (int)sizeof item->why - 1, why);
}

/* Marks what another version of moire made. */
static bool is_current(struct mo_stored *item, int abi, int generator) {
    if (abi == MO_KERNEL_ABI && generator == MO_GENERATOR_VERSION) return true;
    mark(item, MO_STORED_STALE, "made by another version of moire");
    return false;
}

/* The item itself is current: it is needed, and so is the `to` that it names, if any. */
static void keep(const struct mo_upkeep *u, struct mo_stored *item, const char *to,
                 enum mo_stored_kind kind) {
    struct mo_stored *target = *to ? find(u, to, kind) : NULL;
    if (*to && !target) {
        mark(item, MO_STORED_DAMAGED, "what it names is missing");
        return;
    }
    if (target) mark(target, MO_STORED_NEEDED, "");
    mark(item, MO_STORED_NEEDED, "");
}

static int read_index(struct mo_upkeep *u, struct mo_stored *item, const char *bytes, size_t n,
                      moire_error *why) {
    struct mo_store_index x;
    char layer[MO_SHA256_HEX];
    int rc = mo_store_parse_index(bytes, n, &x, why);
    if (rc) return rc;
    snprintf(item->label, sizeof item->label, "%s", x.signature);
    mo_store_layer(x.signature, x.isa, layer);
    if (strcmp(layer, item->name)) return mo_fail(why, MOIRE_ESTORE, "index of another layer");
    if (is_current(item, x.abi, x.generator)) keep(u, item, x.best, MO_STORED_ENTRY);
    return MOIRE_OK;
}

static int read_front(struct mo_upkeep *u, struct mo_stored *item, const char *bytes, size_t n,
                      moire_error *why) {
    struct mo_store_front *f = mo_alloc(u->env, sizeof *f);
    if (!f) return mo_fail(why, MOIRE_ENOMEM, "out of memory");
    int rc = mo_store_parse_front(bytes, n, f, why);
    snprintf(item->label, sizeof item->label, "%s", f->signature);
    char layer[MO_SHA256_HEX];
    mo_store_layer(f->signature, f->isa, layer);
    if (!rc && strcmp(layer, item->name)) rc = mo_fail(why, MOIRE_ESTORE, "front of another layer");
    if (!rc && is_current(item, f->abi, f->generator)) {
        keep(u, item, "", MO_STORED_ENTRY);
        for (int i = 0; i < f->n && item->state == MO_STORED_NEEDED; i++)
            if (f->point[i].state == MO_POINT_VERSION) keep(u, item, f->point[i].key, MO_STORED_ENTRY);
    }
    mo_free(u->env, f);
    return rc;
}

static bool is_there(const struct mo_env *env, const char *path) {
    int fd = env->sys->open(env->sys->self, path, O_PATH, 0);
    if (fd >= 0) env->sys->close(env->sys->self, fd);
    return fd >= 0;
}

static int read_stamp(struct mo_upkeep *u, struct mo_stored *item, const char *bytes, size_t n,
                      moire_error *why) {
    struct mo_store_stamp s;
    int rc = mo_store_parse_stamp(bytes, n, &s, why);
    if (rc) return rc;
    memcpy(item->label, s.path, sizeof s.path);
    memcpy(item->digest, s.model, sizeof s.model);
    item->verified = s.verified;
    item->unverified = s.unverified;
    item->error = s.error;
    if (!is_current(item, s.abi, s.generator)) return MOIRE_OK;
    if (*s.path && !is_there(u->env, s.path))
        mark(item, MO_STORED_UNNEEDED, "its ONNX file is gone");
    else
        keep(u, item, s.model, MO_STORED_MODEL);
    return MOIRE_OK;
}

/* After all indices and fronts; the files beside it share its fate. */
static int read_entry(struct mo_upkeep *u, struct mo_stored *item, const char *bytes, size_t n,
                      moire_error *why) {
    struct mo_store_entry e;
    char key[MO_SHA256_HEX];
    int rc = mo_store_parse_entry(bytes, n, &e, why);
    if (rc) return rc;
    mo_store_key(&e, key);
    if (strcmp(key, item->name)) return mo_fail(why, MOIRE_ESTORE, "description of another kernel");
    memcpy(item->family, e.family, sizeof item->family);
    memcpy(item->digest, e.object, sizeof item->digest);
    snprintf(item->label, sizeof item->label, "%s", e.signature);
    is_current(item, e.abi, e.generator);
    for (enum mo_stored_kind kind = MO_STORED_CODE; kind <= MO_STORED_SOURCE; kind++) {
        struct mo_stored *beside = find(u, item->name, kind);
        if (beside) mark(beside, item->state, item->why);
        if (!beside && kind == MO_STORED_CODE)
            return mo_fail(why, MOIRE_ESTORE, "the code that it describes is missing");
    }
    return MOIRE_OK;
}

/* Opens the folder of an item (-1: gone) and writes the name of its file. */
static int open_subfolder(const struct mo_upkeep *u, const struct mo_stored *item, char file[FILE_NAME],
                          int *folder, moire_error *why) {
    char subfolder[PATH_CAP + 8];
    snprintf(subfolder, sizeof subfolder, "%s/%.2s", u->folder, item->name);
    snprintf(file, FILE_NAME, "%s%s", item->name, mo_stored_suffix(item->kind));
    return mo_trusted_walk(u->env, subfolder, folder, why);
}

typedef int read_item(struct mo_upkeep *u, struct mo_stored *item, const char *bytes, size_t n,
                      moire_error *why);

/* All descriptions of a kind; what does not parse is damaged.  0 or MOIRE_ENOMEM. */
static int read_kind(struct mo_upkeep *u, enum mo_stored_kind kind, read_item *parse) {
    const struct mo_env *env = u->env;
    for (int i = 0; i < u->n; i++) {
        struct mo_stored *item = &u->item[i];
        char file[FILE_NAME], *bytes = NULL;
        moire_error why = {0};
        size_t n = 0;
        int folder = -1;
        if (item->kind != kind) continue;
        int rc = open_subfolder(u, item, file, &folder, &why);
        if (!rc && folder >= 0)
            rc = mo_trusted_read(env, folder, file, env->limits.variant_json_bytes, &bytes, &n, NULL, &why);
        if (!rc && bytes) rc = parse(u, item, bytes, n, &why);
        if (rc) mark(item, MO_STORED_DAMAGED, why.message);
        mo_free(env, bytes);
        if (folder >= 0) env->sys->close(env->sys->self, folder);
        if (rc == MOIRE_ENOMEM) return rc;
    }
    return MOIRE_OK;
}

static int read_all(struct mo_upkeep *u) {
    static const struct {
        enum mo_stored_kind kind;
        read_item *parse;
    } passes[] = {
        {MO_STORED_INDEX, read_index},
        {MO_STORED_FRONT, read_front},
        {MO_STORED_STAMP, read_stamp},
        {MO_STORED_ENTRY, read_entry},
    };
    int rc = MOIRE_OK;
    for (size_t i = 0; !rc && i < sizeof passes / sizeof *passes; i++)
        rc = read_kind(u, passes[i].kind, passes[i].parse);
    return rc;
}

int mo_upkeep_open(const struct mo_env *env, const char *store, const char *cpu, struct mo_upkeep *out,
                   moire_error *err) {
    char here[MO_CPU_FOLDER];
    int folder;
    mo_cpu_folder(here);
    *out = (struct mo_upkeep){.env = env};
    if (snprintf(out->folder, sizeof out->folder, "%s/v1/%s", store, cpu ? cpu : here) >= PATH_CAP - 256)
        return mo_fail(err, MOIRE_ESTORE, "path of the store is too long");
    int rc = mo_trusted_walk(env, out->folder, &folder, err);
    if (rc || folder < 0) return rc;
    env->sys->close(env->sys->self, folder);
    rc = mo_upkeep_list(out);
    if (out->n) qsort(out->item, (size_t)out->n, sizeof *out->item, by_name);
    if (!rc) rc = read_all(out);
    if (!rc) return MOIRE_OK;
    mo_upkeep_close(out);
    return mo_fail(err, rc, "variant store '%.200s': %s", store,
                   rc == MOIRE_ENOMEM ? "out of memory" : "a folder breaks the trust rule");
}

void mo_upkeep_close(struct mo_upkeep *u) {
    mo_free(u->env, u->item);
    u->item = NULL;
    u->n = u->cap = 0;
}

/* --- checksums --- */
static int check_code(const struct mo_upkeep *u, const struct mo_stored *item, const void *bytes, size_t n,
                      moire_error *why) {
    const struct mo_stored *entry = find(u, item->name, MO_STORED_ENTRY);
    char hex[MO_SHA256_HEX];
    mo_sha256_hex(bytes, n, hex);
    if (entry && !strcmp(hex, entry->digest)) return mo_elf_check(bytes, n, why);
    return mo_fail(why, MOIRE_ESTORE, "checksum does not match");
}

static int check_item(const struct mo_upkeep *u, const struct mo_stored *item, moire_error *why) {
    const struct mo_env *env = u->env;
    char file[FILE_NAME];
    bool model = item->kind == MO_STORED_MODEL;
    struct mo_trusted_file bytes;
    int folder;
    int rc = open_subfolder(u, item, file, &folder, why);
    if (rc || folder < 0) return rc;
    rc = mo_trusted_map(env, folder, file, model ? env->limits.model_image_bytes : env->limits.variant_bytes,
                        &bytes, why);
    env->sys->close(env->sys->self, folder);
    if (rc || !bytes.bytes) return rc;
    rc = model ? mo_image_check(bytes.bytes, bytes.n, item->name, why)
               : check_code(u, item, bytes.bytes, bytes.n, why);
    mo_trusted_close(env, &bytes);
    return rc;
}

static bool wants_check(const struct mo_stored *item) {
    return item->state == MO_STORED_NEEDED && (item->kind == MO_STORED_CODE || item->kind == MO_STORED_MODEL);
}

int mo_upkeep_check(struct mo_upkeep *u, bool (*progress)(void *ctx, int64_t done, int64_t total), void *ctx,
                    moire_error *err) {
    int64_t total = 0, done = 0;
    for (int i = 0; i < u->n; i++)
        if (wants_check(&u->item[i])) total += u->item[i].bytes;
    for (int i = 0; i < u->n; i++) {
        moire_error why = {0};
        if (!wants_check(&u->item[i])) continue;
        int rc = check_item(u, &u->item[i], &why);
        if (rc == MOIRE_ENOMEM) return mo_fail(err, rc, "%s", why.message);
        if (rc) mark(&u->item[i], MO_STORED_DAMAGED, why.message);
        done += u->item[i].bytes;
        if (progress && !progress(ctx, done, total)) return mo_fail(err, MOIRE_EINTERRUPTED, "interrupted");
    }
    return MOIRE_OK;
}

/* --- cleaning --- */
int64_t mo_upkeep_surplus(const struct mo_upkeep *u, int *files) {
    int64_t bytes = 0;
    *files = 0;
    for (int i = 0; i < u->n; i++) {
        if (u->item[i].state == MO_STORED_NEEDED) continue;
        bytes += u->item[i].bytes;
        ++*files;
    }
    return bytes;
}

struct cleaning {
    const struct mo_env *env;
    const char *store;
    struct mo_upkeep *upkeep;
    struct mo_writer *writer;
    int files;
    int64_t bytes;
};

/* What leads goes before what it leads to: a reader never finds half. */
static void remove_surplus(struct cleaning *c) {
    const struct mo_upkeep *u = c->upkeep;
    for (int kind = 0; kind < MO_STORED_KINDS; kind++) {
        for (int i = 0; i < u->n; i++) {
            if ((int)u->item[i].kind != kind || u->item[i].state == MO_STORED_NEEDED) continue;
            mo_writer_remove(c->writer, u->item[i].name, mo_stored_suffix(kind));
            c->bytes += u->item[i].bytes;
            c->files++;
        }
    }
}

/* In rounds: what named a damaged file names none afterwards. */
static int clean(void *ctx, moire_error *err) {
    struct cleaning *c = ctx;
    int rc = MOIRE_OK, surplus = 1;
    for (int round = 0; !rc && surplus && round < MOST_ROUNDS; round++) {
        mo_upkeep_close(c->upkeep);
        rc = mo_upkeep_open(c->env, c->store, NULL, c->upkeep, err);
        if (!rc && !round) rc = mo_upkeep_check(c->upkeep, NULL, NULL, err);
        mo_upkeep_surplus(c->upkeep, &surplus);
        if (!rc) remove_surplus(c);
    }
    return rc;
}

int mo_upkeep_clean(const struct mo_env *env, const char *store, struct mo_upkeep *after, int *files,
                    int64_t *bytes, moire_error *err) {
    struct cleaning c = {.env = env, .store = store, .upkeep = after};
    *after = (struct mo_upkeep){.env = env};
    int rc = mo_writer_open(env, store, &c.writer, err);
    if (!rc) rc = mo_writer_alone(c.writer, clean, &c, err);
    mo_writer_close(c.writer);
    *files = c.files;
    *bytes = c.bytes;
    return rc;
}
