/* SPDX-License-Identifier: Apache-2.0
 * live_page.h - the live page, GET /: one file of HTML, styles and script that reads GET /v2/moire/live.
 *
 * Its parts are serve/page/live.{html,css,js}; the build puts them together (tools/make/serve.mk).  It loads
 * nothing from anywhere, and its policy forbids that: only what carries the nonce of this answer runs. */
#ifndef MS_PAGE_H
#define MS_PAGE_H
#include "serve/protocol/bytes.h"

enum { MS_NONCE = 33, MS_PAGE_POLICY = 320 };

/* Appends the page, with a nonce of its own, which it says. */
void ms_page_write(struct ms_bytes *to, char nonce[MS_NONCE]);
/* The value of Content-Security-Policy for it. */
void ms_page_policy(const char *nonce, char policy[MS_PAGE_POLICY]);
#endif
