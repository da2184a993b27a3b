/* SPDX-License-Identifier: Apache-2.0
 * check.h - the history checker: reads the text of an event history and says which promise it breaks.
 * Shares no code and no header with the runtime.  One pass, time and memory linear in the history. */
#ifndef HISTORY_CHECK_H
#define HISTORY_CHECK_H
#include <stddef.h>

/* The promises (a short form of the design's list):
 *   FORM  every line parses, sequence numbers and each thread's times do not go back, nothing was dropped
 *   H1    each accepted query has one outcome and one callback, no other query has any
 *   H2    EXPIRED never before the deadline
 *   H3    the blocks of an OK query tile [0, L) once and in order
 *   H4    a core runs one block at a time, in the let it was given to; at most one is queued behind it, a
 *         whole batch behind the end of another, and nothing comes between; into a running block and out of
 *         it goes only who was asked, and after its end nobody but those that were still on their way
 *   H5    accepted = resolved + open, 0 open at DRAINED and at the end; samples agree
 *   H7    queues and instances stay within their bounds
 *   H9    no second passes with every core idle while a query could run
 *   H10   no event mixes tenants, and no tenant acts before OPEN or accepts after CLOSE */
struct history_verdict {
    char rule[8]; /* "" = all promises held */
    char message[240];
    long line, events, queries;
};

/* Checks n bytes of text. */
struct history_verdict history_check(const char *text, size_t n);
#endif
