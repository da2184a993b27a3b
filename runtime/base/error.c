/* SPDX-License-Identifier: Apache-2.0
 * error.c - error codes, their names and texts, and message formatting. */
#include "runtime/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct code_row {
    int code;
    const char *name, *text;
};

static const struct code_row codes[] = {
#define ROW(name, value, text) {value, "MOIRE_" #name, text},
    MOIRE_CODES(ROW)
#undef ROW
};

static const struct code_row *find(int code) {
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].code == code) return &codes[i];
    return NULL;
}

const char *moire_code_name(int code) {
    const struct code_row *row = find(code);
    return row ? row->name : "MOIRE_UNKNOWN";
}

const char *moire_code_text(int code) {
    const struct code_row *row = find(code);
    return row ? row->text : "unknown code";
}

const char *moire_version(void) {
    return MOIRE_VERSION_STRING;
}

int moire_abi_version(void) {
    return MOIRE_ABI_VERSION;
}

static void escape_controls(char *s) {
    for (; *s; s++)
        if ((unsigned char)*s < 32 || *s == 127) *s = '?';
}

int mo_fail(moire_error *err, int code, const char *format, ...) {
    if (!err) return code;
    err->code = code;
    va_list ap;
    va_start(ap, format);
    vsnprintf(err->message, sizeof err->message, format, ap);
    va_end(ap);
    escape_controls(err->message);
    return code;
}

int mo_fail_context(moire_error *err, int code, const char *format, ...) {
    if (!err) return code;
    char context[200], old[sizeof err->message];
    va_list ap;
    va_start(ap, format);
    vsnprintf(context, sizeof context, format, ap);
    va_end(ap);
    memcpy(old, err->message, sizeof old);
    err->code = code;
    snprintf(err->message, sizeof err->message, "%s: %.290s", context, old);
    escape_controls(err->message);
    return code;
}
