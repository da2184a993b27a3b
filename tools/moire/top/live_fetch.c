/* SPDX-License-Identifier: Apache-2.0
 * live_fetch.c - one request of HTTP; see live_fetch.h. */
#define _GNU_SOURCE
#include "tools/moire/top/live_fetch.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/error.h"

enum { MOST_BYTES = 64 << 20, MOST_TOKEN = 4096 };

/* --- the token --- */
int mo_live_read_token(const char *path, char **out, moire_error *err) {
    char line[MOST_TOKEN + 2] = "";
    FILE *f = fopen(path, "re");
    *out = NULL;
    if (!f) return mo_fail(err, MOIRE_EIO, "--token %.300s: %s", path, strerror(errno));
    const bool is_read = fgets(line, sizeof line, f) != NULL;
    fclose(f);
    const size_t n = is_read ? strcspn(line, " \t\r\n") : 0;
    bool is_plain = n && n <= MOST_TOKEN;
    for (size_t i = 0; i < n; i++)
        is_plain = is_plain && line[i] > ' ' && line[i] <= '~';
    if (!is_plain)
        return mo_fail(err, MOIRE_EFORMAT, "--token %.300s has no token: one line of 4,096 letters at most",
                       path);
    *out = strndup(line, n);
    explicit_bzero(line, sizeof line);
    return *out ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "no memory for the token");
}

/* --- the answer --- */
static int read_all(struct mo_live_link *link, char **text, size_t *n, moire_error *err) {
    size_t room = 1 << 16;
    ssize_t more = 0;
    *n = 0;
    *text = malloc(room);
    while (*text && (more = mo_live_receive(link, *text + *n, room - *n, err)) > 0) {
        *n += (size_t)more;
        if (*n < room) continue;
        char *larger = room < MOST_BYTES ? realloc(*text, room *= 2) : NULL;
        if (!larger) free(*text);
        *text = larger;
    }
    if (!*text) return mo_fail(err, MOIRE_ENOMEM, "no memory for the answer");
    return more < 0 ? MOIRE_EIO : MOIRE_OK;
}

/* What to do about a status. */
static const char *advice(long status, bool has_token) {
    if (status == 401)
        return has_token ? ": it does not know the token" : ": it wants a token; give --token FILE";
    if (status == 403) return ": the token has no right to metrics";
    return status == 404 ? ": it is no moire serve" : "";
}

static int read_answer(const char *text, size_t n, const struct mo_live_server *s, json_t **out,
                       moire_error *err) {
    const char *body = memmem(text, n, "\r\n\r\n", 4);
    const bool is_http = n > 12 && !memcmp(text, "HTTP/1.", 7);
    const long status = is_http ? strtol(text + 9, NULL, 10) : 0;
    if (!is_http || !body) return mo_fail(err, MOIRE_EFORMAT, "%s speaks no HTTP", s->url);
    if (status != 200)
        return mo_fail(err, MOIRE_EIO, "%s answers with status %ld%s", s->url, status,
                       advice(status, s->token));
    *out = json_loadb(body + 4, n - (size_t)(body + 4 - text), 0, NULL);
    if (json_is_array(json_object_get(*out, "models"))) return MOIRE_OK;
    json_decref(*out);
    *out = NULL;
    return mo_fail(err, MOIRE_EFORMAT, "%s answers, but not as moire serve does", s->url);
}

int mo_live_fetch(const struct mo_live_server *s, json_t **out, moire_error *err) {
    struct mo_live_link *link;
    char *text = NULL, *request = NULL;
    size_t n = 0;
    *out = NULL;
    int rc = mo_live_open(s, &link, err);
    if (rc) return rc;
    const int length =
        asprintf(&request,
                 "GET /v2/moire/live?since=none HTTP/1.1\r\nHost: moire\r\n"
                 "Connection: close\r\n%s%s%s\r\n",
                 s->token ? "Authorization: Bearer " : "", s->token ? s->token : "", s->token ? "\r\n" : "");
    rc = length < 0 ? mo_fail(err, MOIRE_ENOMEM, "no memory for a request")
                    : mo_live_send(link, request, (size_t)length, err);
    if (!rc) rc = read_all(link, &text, &n, err);
    if (!rc && text) rc = read_answer(text, n, s, out, err);
    if (length >= 0) free(request);
    free(text);
    mo_live_close(link);
    return rc;
}
