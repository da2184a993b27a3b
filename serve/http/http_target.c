/* SPDX-License-Identifier: Apache-2.0
 * http_target.c - the path of a request, and where its body ends; see http.h. */
#include <string.h>
#include <strings.h>
#include "serve/http/http.h"

static int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* A zero would end the path early, and a slash make two words of one: these stay as they are, and name
 * nothing. */
size_t ms_http_unescape(void *user, struct MHD_Connection *connection, char *text) {
    char *to = text;
    (void)user, (void)connection;
    for (const char *from = text; *from; to++) {
        const int high = *from == '%' ? digit(from[1]) : -1, low = high < 0 ? -1 : digit(from[2]);
        const int c = low < 0 ? 0 : high << 4 | low;
        *to = c && c != '/' ? (char)c : *from;
        from += c && c != '/' ? 3 : 1;
    }
    *to = 0;
    return (size_t)(to - text);
}

static enum MHD_Result count(void *lengths, enum MHD_ValueKind kind, const char *name, const char *value) {
    (void)kind, (void)value;
    if (!strcasecmp(name, "Content-Length") || !strcasecmp(name, "Transfer-Encoding")) ++*(int *)lengths;
    return MHD_YES;
}

bool ms_http_has_one_length(const struct ms_exchange *x) {
    int lengths = 0;
    x->http->mhd.get_connection_values(x->connection, MHD_HEADER_KIND, count, &lengths);
    return lengths <= 1;
}
