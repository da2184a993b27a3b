/* SPDX-License-Identifier: Apache-2.0
 * quantize_state.h - what a quantization has found so far, in a file, so that an interrupted one goes on. */
#ifndef MO_QUANTIZE_STATE_H
#define MO_QUANTIZE_STATE_H
#include <jansson.h>
#include "codegen/quantize/quantize_model.h"

/* Errors of layers by name, for a model, samples and options that the key stands for. */
struct mo_quantize_state {
    const struct mo_env *env;
    const char *path; /* NULL: nothing is kept */
    json_t *errors;
    char key[72];
    int64_t saved; /* when, by mo_now() */
};

/* Reads the file where it is there and of the same key; a file of another key is begun anew. */
int mo_quantize_state_open(const struct mo_env *env, const char *path, const char *key,
                           struct mo_quantize_state *out, moire_error *err);
/* Known: the error of that layer; else -1. */
double mo_quantize_state_find(const struct mo_quantize_state *s, const char *layer);
/* Keeps it; written to the file at most once in some seconds. */
int mo_quantize_state_put(struct mo_quantize_state *s, const char *layer, double error, moire_error *err);
int mo_quantize_state_save(struct mo_quantize_state *s, moire_error *err);
void mo_quantize_state_close(struct mo_quantize_state *s);
#endif
