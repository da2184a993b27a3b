/* SPDX-License-Identifier: Apache-2.0
 * access.h - may this client do that?  By the tokens of --token-file; without it everybody may do everything.
 *
 * A client is known by the digest of its token, and asked for at each request: a token that is taken out of
 * the file is of no use from the next SIGHUP on, not even on an open stream. */
#ifndef MS_ACCESS_H
#define MS_ACCESS_H
#include "serve/access/tokens.h"

/* What a request needs.  Not said is the most. */
enum ms_right {
    MS_RIGHT_CONTROL, /* changes what the server does */
    MS_RIGHT_METRICS, /* reads of all models */
    MS_RIGHT_MODEL,   /* uses one model */
    MS_RIGHT_TOKEN,   /* any token; what it tells is cut to the token's models */
    MS_RIGHT_NONE     /* health: whoever watches the server needs no secret */
};

/* What a client says of itself. */
struct ms_bearer {
    bool given;
    uint8_t digest[MS_SHA256_BYTES];
};
/* The value of the header or field `authorization`, n bytes: "Bearer TOKEN". */
void ms_bearer_read(const char *value, size_t n, struct ms_bearer *out);

struct ms_access;
/* The name is kept.  Returns: MOIRE_OK, and it is to be closed; what ms_tokens_read() returns. */
int ms_access_open(const char *path, struct ms_access **out, moire_error *err);
void ms_access_close(struct ms_access *access); /* NULL is fine */
/* Reads the file again; on an error the tokens stay.  Any thread. */
int ms_access_reload(struct ms_access *access, moire_error *err);

/* access NULL: everything is allowed.  Any thread.
 * Returns: MOIRE_OK; MS_EAUTH: no token, or none of the file; MS_EDENIED: the token may not do that;
 * MOIRE_ESTALE: or has no right on that model, which then is as if it were not there. */
int ms_access_check(struct ms_access *access, const struct ms_bearer *bearer, enum ms_right right,
                    const char *model, const char *version, moire_error *err);
/* Takes out of a list of objects those whose "name" is a model that the client has no right on.  Who controls
 * or reads metrics sees all. */
void ms_access_filter(struct ms_access *access, const struct ms_bearer *bearer, json_t *list);
#endif
