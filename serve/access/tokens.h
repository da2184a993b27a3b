/* SPDX-License-Identifier: Apache-2.0
 * tokens.h - the file of tokens: who may do what.  docs/serving-security.md has its form. */
#ifndef MS_TOKENS_H
#define MS_TOKENS_H
#include <jansson.h>
#include <stdbool.h>
#include "moire.h"
#include "serve/access/token_digest.h"

enum {
    MS_TOKENS = 1024,
    MS_TOKENS_FILE_BYTES = 1 << 20,
    MS_TOKEN_NAME = 64,
    MS_TOKEN_LEAST = 16, /* characters of one that is written out */
    MS_TOKEN_MOST = 4096
};

struct ms_token {
    char name[MS_TOKEN_NAME];
    uint8_t digest[MS_SHA256_BYTES];
    json_t *models; /* patterns of names */
    bool control, metrics;
};

struct ms_tokens {
    int n;
    struct ms_token *token;
};

/* From text of n bytes.  Returns: MOIRE_OK, and it is to be closed; MOIRE_EFORMAT: the message names the
 * token and the field; MOIRE_ENOMEM. */
int ms_tokens_parse(const char *text, size_t n, struct ms_tokens *out, moire_error *err);
/* From a file that nobody else may read: it is this user's and only theirs, or root's and at most a group may
 * read it.  Returns: besides, MOIRE_EIO. */
int ms_tokens_read(const char *path, struct ms_tokens *out, moire_error *err);
void ms_tokens_close(struct ms_tokens *tokens);
/* Looks at all of them whatever it finds, so that the time tells nothing.  NULL: none has that digest. */
const struct ms_token *ms_tokens_find(const struct ms_tokens *tokens, const uint8_t digest[MS_SHA256_BYTES]);
bool ms_token_covers(const struct ms_token *token, const char *model);
#endif
