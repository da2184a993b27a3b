/* SPDX-License-Identifier: Apache-2.0
 * omit.h - every operator with every subset of its operands left out.
 *
 * Models of one node, the ONNX backend's and some made here for operators that it has none of, are changed
 * and loaded again: a subset of inputs and outputs without a name, the same with shorter lists, outputs that
 * have a name but that nobody reads.  ONNX's own word (operands.txt), not moire's table, says which of them
 * are models.  The others must be refused by an error that names the operator and the fault; a model must
 * give what the node gives with all outputs, from the references and from a plan in used memory
 * (used_memory.h). */
#ifndef MO_OMIT_H
#define MO_OMIT_H
#include "tools/moire/verify/dataset.h"

/* --- omit_rules.c: operands.txt --- */
struct omit_rules;
struct omit_rules *omit_rules_read(const char *path); /* NULL: cannot be read */
void omit_rules_free(struct omit_rules *rules);
/* Letters of the operator's inputs and outputs in this opset; false: not an operator of the list. */
bool omit_rules_find(const struct omit_rules *rules, const char *op, int64_t opset, const char **in,
                     const char **out);
/* Letter of operand k: the last one stands for any number. */
char omit_letter(const char *letters, size_t k);

/* --- omit.c: one model --- */
struct omit_counts {
    int models, refused, answered;
    int declined; /* ONNX's list of operands allows it, the operator's own conditions do not */
};

struct omit_log {
    bool verbose; /* prints what was declined */
    struct omit_counts *counts;
};

/* The model's only node, by subsets.  0; 1 = its node is not of the list, or does not run as it is; an error.
 */
int omit_model(const struct mo_env *env, const struct omit_rules *rules, const void *bytes, size_t n,
               const struct mo_dataset *data, const struct omit_log *log, moire_error *err);
/* Type of the only node of a model; false: it has none, or several. */
bool omit_only_node(const void *bytes, size_t n, char *op, size_t cap);

/* --- omit_made.c: models of operators of which the backend has no case with one node --- */
int omit_made_count(void);
/* Bytes from malloc(); data is closed by mo_dataset_close(). */
void *omit_made(const struct mo_env *env, int index, size_t *n, struct mo_dataset *data);
#endif
