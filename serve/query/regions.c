/* SPDX-License-Identifier: Apache-2.0
 * regions.c - shared memory of clients; see regions.h. */
#define _GNU_SOURCE
#include "serve/query/regions.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "serve/protocol/fault.h"

enum { KEY = 256 };

struct ms_region {
    char name[MS_REGION_NAME], key[KEY];
    int fd, users;
    bool is_gone; /* unregistered */
    int64_t offset, bytes;
    struct ms_region *next;
};
struct ms_regions {
    char *prefix; /* NULL: off */
    size_t most;
    pthread_mutex_t lock;
    struct ms_region *first; /* those that are registered, last come first */
    int n;
};

struct ms_regions *ms_regions_open(const char *prefix, size_t most) {
    struct ms_regions *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    *r = (struct ms_regions){.prefix = prefix ? strdup(prefix) : NULL, .most = most};
    pthread_mutex_init(&r->lock, NULL);
    if (!prefix || r->prefix) return r;
    ms_regions_close(r);
    return NULL;
}

static void free_one(struct ms_region *region) {
    close(region->fd);
    free(region);
}

void ms_regions_close(struct ms_regions *r) {
    if (!r) return;
    ms_regions_unregister(r, "");
    pthread_mutex_destroy(&r->lock);
    free(r->prefix);
    free(r);
}

static struct ms_region *find(const struct ms_regions *r, const char *name) {
    struct ms_region *region = r->first;
    while (region && strcmp(region->name, name) != 0)
        region = region->next;
    return region;
}

/* --- registering --- */
static int check_key(const struct ms_regions *r, const char *key, moire_error *err) {
    if (!r->prefix)
        return ms_fail(err, MOIRE_EUNSUPPORTED,
                       "shared memory is not served: start with --shared-memory PREFIX");
    if (key[0] != '/' || !key[1] || strchr(key + 1, '/') || strlen(key) >= KEY)
        return ms_fail(err, MOIRE_EINVAL, "the key '%.100s' must be a slash and a name without one", key);
    if (strncmp(key, r->prefix, strlen(r->prefix)) != 0)
        return ms_fail(err, MOIRE_EINVAL, "the key '%.100s' must begin with %.100s", key, r->prefix);
    return MOIRE_OK;
}

/* A file of the server's own user; whose others are is not told. */
static int open_key(const char *key, int64_t end, int *fd, moire_error *err) {
    struct stat s;
    *fd = shm_open(key, O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
    if (*fd < 0 || fstat(*fd, &s) || !S_ISREG(s.st_mode) || s.st_uid != geteuid()) {
        if (*fd >= 0) close(*fd);
        return ms_fail(err, MOIRE_ESTALE, "there is no shared memory '%.100s' of this server's user", key);
    }
    if (end <= s.st_size) return MOIRE_OK;
    close(*fd);
    return ms_fail(err, MOIRE_EINVAL, "the shared memory '%.100s' is shorter than offset and byte_size say",
                   key);
}

static int add(struct ms_regions *r, struct ms_region *made, moire_error *err) {
    int rc = MOIRE_OK;
    pthread_mutex_lock(&r->lock);
    if (find(r, made->name))
        rc =
            ms_fail(err, MOIRE_EINVAL, "the shared memory region '%.100s' is registered already", made->name);
    else if (r->n == MS_REGIONS)
        rc =
            ms_fail(err, MOIRE_ELIMIT, "%d shared memory regions are registered; no more can be", MS_REGIONS);
    if (!rc) {
        made->next = r->first;
        r->first = made;
        r->n++;
    }
    pthread_mutex_unlock(&r->lock);
    return rc;
}

int ms_regions_register(struct ms_regions *r, const char *name, const char *key, int64_t offset,
                        int64_t bytes, moire_error *err) {
    int64_t end;
    int fd = -1, rc = check_key(r, key, err);
    if (rc) return rc;
    if (!*name || strlen(name) >= MS_REGION_NAME)
        return ms_fail(err, MOIRE_EINVAL, "a region's name has 1 to %d characters", MS_REGION_NAME - 1);
    if (offset < 0 || bytes < 1 || __builtin_add_overflow(offset, bytes, &end))
        return ms_fail(err, MOIRE_EINVAL, "region '%.100s': offset and byte_size are no range", name);
    rc = open_key(key, end, &fd, err);
    if (rc) return rc;
    struct ms_region *made = calloc(1, sizeof *made);
    if (made) {
        *made = (struct ms_region){.fd = fd, .offset = offset, .bytes = bytes};
        snprintf(made->name, sizeof made->name, "%s", name);
        snprintf(made->key, sizeof made->key, "%s", key);
        rc = add(r, made, err);
        if (rc) free_one(made);
        return rc;
    }
    close(fd);
    return ms_fail(err, MOIRE_ENOMEM, "no memory for a region");
}

void ms_regions_unregister(struct ms_regions *r, const char *name) {
    pthread_mutex_lock(&r->lock);
    for (struct ms_region **at = &r->first; *at;) {
        struct ms_region *region = *at;
        if (*name && strcmp(region->name, name) != 0) {
            at = &region->next;
            continue;
        }
        *at = region->next;
        r->n--;
        region->is_gone = true;
        if (!region->users) free_one(region);
    }
    pthread_mutex_unlock(&r->lock);
}

int ms_regions_status(struct ms_regions *r, const char *name, json_t **out, moire_error *err) {
    *out = json_array();
    pthread_mutex_lock(&r->lock);
    for (const struct ms_region *region = r->first; region; region = region->next)
        if (!*name || !strcmp(region->name, name))
            json_array_append_new(*out, json_pack("{s:s, s:s, s:I, s:I}", "name", region->name, "key",
                                                  region->key, "offset", (json_int_t)region->offset,
                                                  "byte_size", (json_int_t)region->bytes));
    pthread_mutex_unlock(&r->lock);
    if (!*out) return ms_fail(err, MOIRE_ENOMEM, "no memory for the regions");
    if (!*name || json_array_size(*out)) return MOIRE_OK;
    json_decref(*out);
    *out = NULL;
    return ms_fail(err, MOIRE_ESTALE, "there is no shared memory region '%.100s'", name);
}

/* --- use --- */
int ms_regions_take(struct ms_regions *r, const char *name, int64_t offset, int64_t bytes,
                    struct ms_region **out, moire_error *err) {
    int rc = MOIRE_OK;
    int64_t end;
    *out = NULL;
    pthread_mutex_lock(&r->lock);
    struct ms_region *region = find(r, name);
    if (!region)
        rc = ms_fail(err, MOIRE_ESTALE, "there is no shared memory region '%.100s'", name);
    else if (offset < 0 || bytes < 0 || __builtin_add_overflow(offset, bytes, &end) || end > region->bytes)
        rc = ms_fail(err, MOIRE_EINVAL,
                     "offset and byte_size are not within the shared memory region '%.100s'", name);
    else if ((uint64_t)bytes > r->most)
        rc = ms_fail(err, MOIRE_ELIMIT, "a tensor may have %zu bytes (--http-max-input-size)", r->most);
    if (!rc && region) {
        region->users++;
        *out = region;
    }
    pthread_mutex_unlock(&r->lock);
    return rc;
}

void ms_regions_give(struct ms_regions *r, struct ms_region *region) {
    pthread_mutex_lock(&r->lock);
    const bool last = !--region->users && region->is_gone;
    pthread_mutex_unlock(&r->lock);
    if (last) free_one(region);
}

static int was_cut(const struct ms_region *region, ssize_t got, moire_error *err) {
    if (got < 0)
        return ms_fail(err, MOIRE_EIO, "the shared memory region '%s': %s", region->name, strerror(errno));
    return ms_fail(err, MOIRE_EINVAL, "the shared memory region '%s' has become shorter", region->name);
}

int ms_region_read(const struct ms_region *region, int64_t offset, void *to, size_t n, moire_error *err) {
    char *at = to;
    while (n) {
        const ssize_t got = pread(region->fd, at, n, region->offset + offset);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return was_cut(region, got, err);
        at += got;
        offset += got;
        n -= (size_t)got;
    }
    return MOIRE_OK;
}

int ms_region_write(const struct ms_region *region, int64_t offset, const void *from, size_t n,
                    moire_error *err) {
    struct stat s;
    const char *at = from;
    /* Writing behind the end would make the file longer again: that is the client's to do. */
    if (fstat(region->fd, &s) || region->offset + offset + (int64_t)n > s.st_size)
        return was_cut(region, 0, err);
    while (n) {
        const ssize_t put = pwrite(region->fd, at, n, region->offset + offset);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return was_cut(region, put, err);
        at += put;
        offset += put;
        n -= (size_t)put;
    }
    return MOIRE_OK;
}
