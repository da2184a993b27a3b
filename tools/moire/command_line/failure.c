/* SPDX-License-Identifier: Apache-2.0
 * failure.c - see failure.h. */
#include "tools/moire/command_line/failure.h"

#include <stdio.h>
#include <string.h>
#include "runtime/base/error.h"
#include "tools/moire/command_line/exits.h"

int mo_print_json(const json_t *document, moire_error *err) {
    if (document && !json_dumpf(document, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) &&
        putchar('\n') != EOF)
        return MOIRE_OK;
    return document ? mo_fail(err, MOIRE_EIO, "standard output: write failed")
                    : mo_fail(err, MOIRE_ENOMEM, "out of memory for the result");
}

/* Messages may hold bytes of a model's names that are no UTF-8, which JSON cannot. */
static json_t *text(const char *message) {
    json_t *whole = json_string(message);
    char plain[sizeof((moire_error *)0)->message];
    size_t i = 0;
    if (whole) return whole;
    for (; message[i] && i + 1 < sizeof plain; i++)
        plain[i] = (char)((unsigned char)message[i] < 128 ? message[i] : '?');
    plain[i] = 0;
    return json_string(plain);
}

void mo_failure_put(json_t *document, const moire_error *err) {
    json_object_set_new(document, "error",
                        json_pack("{s:s, s:i, s:o}", "code", moire_code_name(err->code), "exit",
                                  (int)mo_exit_of(err->code), "message", text(err->message)));
}

/* What a full disk or a closed pipe takes away is told by main(). */
static void print_with(json_t *document, const moire_error *err) {
    if (!document) return;
    mo_failure_put(document, err);
    (void)mo_print_json(document, NULL);
}

int mo_failure_say(const char *verb, bool json, const moire_error *err) {
    fprintf(stderr, "moire%s%s: %s\n", verb ? " " : "", verb ? verb : "", err->message);
    if (json) {
        json_t *document = json_object();
        print_with(document, err);
        json_decref(document);
    }
    return (int)mo_exit_of(err->code);
}

int mo_verb_fail(const struct mo_options *o, const moire_error *err) {
    return mo_failure_say(o->argv[0], o->json, err);
}

int mo_verb_fail_with(const struct mo_options *o, const moire_error *err, json_t *result) {
    int code = mo_failure_say(o->argv[0], o->json && !result, err);
    if (!result || !o->json) return code;
    json_t *document = json_is_object(result) ? json_incref(result) : json_pack("{s:O}", "results", result);
    print_with(document, err);
    json_decref(document);
    return code;
}

bool mo_wants_json(int argc, char *const *argv) {
    for (int i = 0; i < argc; i++)
        if (!strcmp(argv[i], "--json")) return true;
    return false;
}
