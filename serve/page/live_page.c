/* SPDX-License-Identifier: Apache-2.0
 * live_page.c - the live page; see live_page.h. */
#include "serve/page/live_page.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static const uint8_t text[] = {
#include "live_page_text.h"
    0};
static const char place[] = "@nonce@";

void ms_page_write(struct ms_bytes *to, char nonce[MS_NONCE]) {
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        to->failed = true;
        return;
    }
    snprintf(nonce, MS_NONCE, "%016llx%016llx", (unsigned long long)random[0], (unsigned long long)random[1]);
    const char *at = (const char *)text;
    for (const char *next; (next = strstr(at, place)); at = next + sizeof place - 1) {
        ms_bytes_put(to, at, (size_t)(next - at));
        ms_bytes_put(to, nonce, MS_NONCE - 1);
    }
    ms_bytes_put(to, at, strlen(at));
}

void ms_page_policy(const char *nonce, char policy[MS_PAGE_POLICY]) {
    snprintf(policy, MS_PAGE_POLICY,
             "default-src 'none'; connect-src 'self'; img-src data:; script-src 'nonce-%s'; style-src "
             "'nonce-%s'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
             nonce, nonce);
}
