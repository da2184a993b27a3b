/* SPDX-License-Identifier: Apache-2.0
 * toy_family.h - a tiny kernel family and model for tests of the search and the store: a naive convolution on
 * plain tensors, right, wrong or broken by choice. */
#ifndef TOY_FAMILY_H
#define TOY_FAMILY_H
#include "codegen/search/search.h"

/* What a candidate of the toy family does; the value of its first knob. */
enum toy_mode {
    TOY_RIGHT,
    TOY_UNROLLED,
    TOY_WRONG,
    TOY_OVERRUN,
    TOY_NO_C,
    TOY_CONSTRUCTOR,
    TOY_FOREIGN,
    TOY_ABI,
    TOY_CRASH,
    TOY_HANG
};

/* NULL-terminated lists: only right ones; everything that must be rejected and one right one. */
extern const struct mo_emit_family *const toy_families[], *const toy_bad_families[];
/* Some that would take the process with them, between right ones. */
extern const struct mo_emit_family *const toy_deadly_families[];
bool toy_problem(const struct mo_graph *graph, const struct mo_node *node, enum mo_isa isa,
                 struct mo_problem *out);
/* A graph of `n` different 3x3 convolutions in a row, with `name` as the name of everything. */
struct mo_graph *toy_graph(const struct mo_env *env, int n, const char *name);

/* A fresh folder under the system's temporary folder, and its removal with all that is in it. */
void toy_folder(char path[64]);
void toy_remove(const char *path);
/* Searches toy_graph(n, name) into a store with these families. */
int toy_search(const struct mo_env *env, const char *store, int n, const char *name,
               const struct mo_emit_family *const *families, const char *cc, moire_error *err);
/* Signature of convolution i of the toy graph. */
void toy_signature(int i, char out[256]);
#endif
