/* SPDX-License-Identifier: Apache-2.0
 * import_names.c - open-addressing map from tensor names to ids.
 * The hash is seeded by the clock and an address, so that a model cannot be made to collide on purpose. */
#include <string.h>
#include "codegen/import/import.h"

struct entry {
    const char *name;
    int id;
};

struct mo_names {
    struct mo_region *region;
    struct entry *entries;
    uint64_t seed;
    size_t n, mask;
};

static uint64_t hash(const struct mo_names *names, const char *s) {
    uint64_t h = names->seed;
    for (; *s; s++) {
        h = (h ^ (unsigned char)*s) * 0x9e3779b97f4a7c15ULL;
        h ^= h >> 29;
    }
    return h ^ h >> 32;
}

struct mo_names *mo_names_create(const struct mo_env *env, struct mo_region *region, int64_t expected) {
    struct mo_names *names = mo_region_alloc(region, sizeof *names);
    size_t cap = 64;
    while ((int64_t)cap < expected * 2)
        cap *= 2;
    if (!names || !(names->entries = mo_region_array(region, cap, sizeof *names->entries))) return NULL;
    names->region = region;
    names->mask = cap - 1;
    names->seed = (uint64_t)mo_now(env) * 0xbf58476d1ce4e5b9ULL ^ (uint64_t)(uintptr_t)names;
    return names;
}

static struct entry *slot(const struct mo_names *names, const char *name) {
    size_t at = hash(names, name) & names->mask;
    while (names->entries[at].name && strcmp(names->entries[at].name, name))
        at = (at + 1) & names->mask;
    return &names->entries[at];
}

static bool grow(struct mo_names *names) {
    struct entry *old = names->entries;
    size_t cap = names->mask + 1;
    struct entry *wider = mo_region_array(names->region, cap * 2, sizeof *wider);
    if (!wider) return false;
    names->entries = wider;
    names->mask = cap * 2 - 1;
    for (size_t i = 0; i < cap; i++)
        if (old[i].name) *slot(names, old[i].name) = old[i];
    return true;
}

int mo_names_add(struct mo_names *names, const char *name, int id) {
    if (names->n * 2 > names->mask && !grow(names)) return MOIRE_ENOMEM;
    struct entry *e = slot(names, name);
    if (e->name) return 1;
    *e = (struct entry){name, id};
    names->n++;
    return 0;
}

int mo_names_find(const struct mo_names *names, const char *name) {
    const struct entry *e = slot(names, name);
    return e->name ? e->id : -1;
}
