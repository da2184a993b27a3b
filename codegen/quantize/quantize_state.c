/* SPDX-License-Identifier: Apache-2.0
 * quantize_state.c - see quantize_state.h. */
#include "codegen/quantize/quantize_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/output.h"

static const int64_t BETWEEN_NS = INT64_C(3000000000);

int mo_quantize_state_open(const struct mo_env *env, const char *path, const char *key,
                           struct mo_quantize_state *out, moire_error *err) {
    *out = (struct mo_quantize_state){.env = env, .path = path, .saved = mo_now(env)};
    snprintf(out->key, sizeof out->key, "%s", key);
    json_t *file = path ? json_load_file(path, 0, NULL) : NULL;
    const char *of = json_string_value(json_object_get(file, "key"));
    json_t *errors = json_object_get(file, "errors");
    if (of && !strcmp(of, key) && json_is_object(errors)) out->errors = json_incref(errors);
    if (!out->errors) out->errors = json_object();
    json_decref(file);
    return out->errors ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
}

double mo_quantize_state_find(const struct mo_quantize_state *s, const char *layer) {
    const json_t *e = json_object_get(s->errors, layer);
    return json_is_number(e) ? json_number_value(e) : -1;
}

int mo_quantize_state_put(struct mo_quantize_state *s, const char *layer, double error, moire_error *err) {
    if (json_object_set_new(s->errors, layer, json_real(error)))
        return mo_fail(err, MOIRE_ENOMEM, "out of memory for the error of '%.100s'", layer);
    return mo_now(s->env) - s->saved > BETWEEN_NS ? mo_quantize_state_save(s, err) : MOIRE_OK;
}

int mo_quantize_state_save(struct mo_quantize_state *s, moire_error *err) {
    if (!s->path) return MOIRE_OK;
    json_t *file = json_pack("{s:s, s:O}", "key", s->key, "errors", s->errors);
    char *text = file ? json_dumps(file, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(file);
    if (!text) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    int rc = mo_output_write(s->env, s->path, text, strlen(text), err);
    free(text);
    s->saved = mo_now(s->env);
    return rc;
}

void mo_quantize_state_close(struct mo_quantize_state *s) {
    json_decref(s->errors);
    s->errors = NULL;
}
