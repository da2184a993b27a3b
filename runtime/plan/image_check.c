/* SPDX-License-Identifier: Apache-2.0
 * image_check.c - the checksums of an image; see image.h.
 *
 * Checking the data is reading it once, at the speed of memory, and most of what loading a compiled model
 * takes.  It is cut into parts, each with a sum, which threads claim one by one; pages are mapped by whoever
 * claims them. */
#include <string.h>
#include "runtime/plan/image.h"

/* Where part i begins, in the data; the last ends with it. */
static uint64_t part_at(const struct mo_image_checking *c, uint32_t i) {
    const uint64_t at = (uint64_t)i * MO_IMAGE_PART;
    return at < c->bytes ? at : c->bytes;
}

/* Claims parts until there are none. */
static void *check_parts(void *arg) {
    struct mo_image_checking *c = arg;
    const struct mo_sys *sys = c->env ? c->env->sys : NULL;
    for (uint32_t i; (i = atomic_fetch_add(&c->next, 1)) < c->n_parts && !atomic_load(&c->bad);) {
        const char *at = c->data + part_at(c, i);
        const size_t n = (size_t)(part_at(c, i + 1) - part_at(c, i));
        struct mo_sum sum;
        if (sys) sys->want(sys->self, at, n);
        mo_sum_init(&sum);
        mo_sum_add(&sum, at, n);
        if (memcmp(&sum, &c->sum[i], sizeof sum)) atomic_store(&c->bad, 1);
    }
    return NULL;
}

struct mo_sum mo_image_sum(const struct mo_image_head *head, const void *rest, size_t n) {
    struct mo_image_head bare = *head;
    struct mo_sum sum;
    memset(&bare.sum, 0, sizeof bare.sum);
    mo_sum_init(&sum);
    mo_sum_add(&sum, &bare, sizeof bare);
    mo_sum_add(&sum, rest, n);
    return sum;
}

/* NULL, or why these bytes are no image. */
static const char *odd(const void *image, size_t n, const char key[MO_IMAGE_KEY]) {
    const struct mo_image_head *head = image;
    if (n < sizeof *head || memcmp(head->magic, "MOIREIMG", 8)) return "not a compiled model";
    if (head->format != MO_IMAGE_FORMAT || head->endian != 0x01020304) return "of another version of moire";
    if (head->bytes != n || n % MO_SUM_STRIPE) return "truncated";
    if (head->data_offset > n || head->data_offset < sizeof *head || head->data_offset % MO_SUM_STRIPE)
        return "malformed head";
    const uint64_t room = head->data_offset - sizeof *head, parts = mo_image_parts(n - head->data_offset);
    if (parts > room / sizeof(struct mo_sum) || head->meta_bytes > room - parts * sizeof(struct mo_sum))
        return "malformed head";
    if (memcmp(head->key, key, MO_IMAGE_KEY)) return "of another model";
    const struct mo_sum sum = mo_image_sum(head, head + 1, room);
    return memcmp(&sum, &head->sum, sizeof sum) ? "checksum does not match" : NULL;
}

int mo_image_check_head(const void *image, size_t n, const char key[MO_IMAGE_KEY], moire_error *err) {
    const char *why = odd(image, n, key);
    return why ? mo_fail(err, MOIRE_ESTORE, "%s", why) : MOIRE_OK;
}

void mo_image_check_begin(const struct mo_env *env, const void *image, bool helper,
                          struct mo_image_checking *c) {
    const struct mo_image_head *head = image;
    c->env = env;
    c->data = (const char *)image + head->data_offset;
    c->bytes = head->bytes - head->data_offset;
    c->n_parts = (uint32_t)mo_image_parts(c->bytes);
    c->sum = (const struct mo_sum *)c->data - c->n_parts;
    atomic_store(&c->next, 0);
    atomic_store(&c->bad, 0);
    c->helped =
        helper && c->n_parts > 1 && !env->sys->thread_start(env->sys->self, &c->thread, check_parts, c);
}

int mo_image_check_end(struct mo_image_checking *c, moire_error *err) {
    check_parts(c);
    if (c->helped) c->env->sys->thread_join(c->env->sys->self, c->thread);
    c->helped = false;
    return atomic_load(&c->bad) ? mo_fail(err, MOIRE_ESTORE, "checksum does not match") : MOIRE_OK;
}

void mo_image_check_leave(struct mo_image_checking *c) {
    atomic_store(&c->next, c->n_parts);
    if (c->helped) c->env->sys->thread_join(c->env->sys->self, c->thread);
    c->helped = false;
}

int mo_image_check(const void *image, size_t n, const char key[MO_IMAGE_KEY], moire_error *err) {
    struct mo_image_checking c = {0};
    int rc = mo_image_check_head(image, n, key, err);
    if (rc) return rc;
    mo_image_check_begin(NULL, image, false, &c);
    return mo_image_check_end(&c, err);
}
