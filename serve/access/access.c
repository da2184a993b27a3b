/* SPDX-License-Identifier: Apache-2.0
 * access.c - may this client do that?  See access.h. */
#include "serve/access/access.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "serve/protocol/fault.h"

struct ms_access {
    const char *path;
    pthread_mutex_t lock;
    struct ms_tokens tokens;
};

void ms_bearer_read(const char *value, size_t n, struct ms_bearer *out) {
    static const char scheme[] = "Bearer ";
    const size_t skip = sizeof scheme - 1;
    *out = (struct ms_bearer){0};
    if (!value || n <= skip || n > skip + MS_TOKEN_MOST || strncasecmp(value, scheme, skip) != 0) return;
    out->given = true;
    ms_sha256(value + skip, n - skip, out->digest);
}

int ms_access_open(const char *path, struct ms_access **out, moire_error *err) {
    struct ms_access *a = *out = calloc(1, sizeof *a);
    if (!a) return ms_fail(err, MOIRE_ENOMEM, "no memory for the tokens");
    a->path = path;
    pthread_mutex_init(&a->lock, NULL);
    const int rc = ms_tokens_read(path, &a->tokens, err);
    if (!rc) return MOIRE_OK;
    ms_access_close(a);
    *out = NULL;
    return rc;
}

void ms_access_close(struct ms_access *a) {
    if (!a) return;
    ms_tokens_close(&a->tokens);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

int ms_access_reload(struct ms_access *a, moire_error *err) {
    struct ms_tokens read;
    const int rc = ms_tokens_read(a->path, &read, err);
    if (rc) return rc;
    pthread_mutex_lock(&a->lock);
    struct ms_tokens old = a->tokens;
    a->tokens = read;
    pthread_mutex_unlock(&a->lock);
    ms_tokens_close(&old);
    return MOIRE_OK;
}

static int judge(const struct ms_token *t, enum ms_right right, const char *model, const char *version,
                 moire_error *err) {
    if (right == MS_RIGHT_MODEL && !ms_token_covers(t, model)) return ms_fail_no_model(err, model, version);
    if (right == MS_RIGHT_CONTROL && !t->control)
        return ms_fail(err, MS_EDENIED, "the token '%s' has no right to control the server", t->name);
    if (right == MS_RIGHT_METRICS && !t->metrics)
        return ms_fail(err, MS_EDENIED, "the token '%s' has no right to read metrics", t->name);
    return MOIRE_OK;
}

int ms_access_check(struct ms_access *a, const struct ms_bearer *b, enum ms_right right, const char *model,
                    const char *version, moire_error *err) {
    if (!a || right == MS_RIGHT_NONE) return MOIRE_OK;
    if (!b->given) return ms_fail(err, MS_EAUTH, "a token is needed: 'authorization: Bearer TOKEN'");
    pthread_mutex_lock(&a->lock);
    const struct ms_token *t = ms_tokens_find(&a->tokens, b->digest);
    const int rc =
        t ? judge(t, right, model, version, err) : ms_fail(err, MS_EAUTH, "the token is not known here");
    pthread_mutex_unlock(&a->lock);
    return rc;
}

void ms_access_filter(struct ms_access *a, const struct ms_bearer *b, json_t *list) {
    if (!a) return;
    pthread_mutex_lock(&a->lock);
    const struct ms_token *t = ms_tokens_find(&a->tokens, b->digest);
    for (size_t i = json_array_size(list); i-- > 0;) {
        const char *name = json_string_value(json_object_get(json_array_get(list, i), "name"));
        const bool sees = t && (t->control || t->metrics || (name && ms_token_covers(t, name)));
        if (!sees) json_array_remove(list, i);
    }
    pthread_mutex_unlock(&a->lock);
}
