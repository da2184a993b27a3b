/* SPDX-License-Identifier: Apache-2.0
 * error.h - how internal functions report: return a code, fill the caller's moire_error.
 * A function that calls another which already filled `err` returns its code unchanged. */
#ifndef MO_ERROR_H
#define MO_ERROR_H
#include "moire.h"

/* Fills *err (when not NULL) with code and a formatted one-line message; returns code.
 * Control characters in the message are escaped, so text from a model cannot forge log lines. */
int mo_fail(moire_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Puts "context: " before the message of an error that is already filled; returns its code. */
int mo_fail_context(moire_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#endif
