/* SPDX-License-Identifier: Apache-2.0
 * compile_left.h - what a compilation left out, by reason and with the names of the layers: nobody shall take
 * a model for compiled whose budget ended half-way. */
#ifndef MO_COMPILE_LEFT_H
#define MO_COMPILE_LEFT_H
#include <jansson.h>
#include "codegen/search/search.h"

enum mo_left_reason {
    MO_LEFT_BUDGET,   /* not reached */
    MO_LEFT_FAILED,   /* no candidate compiles and computes right */
    MO_LEFT_BUILT_IN, /* none is faster than the built-in kernel */
    MO_LEFT_NONE,     /* no family has a candidate */
    MO_LEFT_VERSIONS, /* it has its best kernel, and its versions are not kept */
    MO_LEFT_REASONS
};
/* Why a layer has no kernel of this search or an earlier one, or not the versions asked for; MO_LEFT_REASONS:
 * it has all. */
enum mo_left_reason mo_left_reason(const struct mo_layer_result *layer);

/* A line for each reason: how many layers of how many, their share of the work, some names. */
void mo_left_print(FILE *to, const struct mo_search *search, bool versions);
/* [{reason, layers: [names], work}]; work: the share of all multiply-adds. */
json_t *mo_left_json(const struct mo_search *search);
/* Layers whose versions are known, and their share of the work. */
int mo_left_tuned(const struct mo_search *search, double *work);
#endif
