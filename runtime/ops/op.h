/* SPDX-License-Identifier: Apache-2.0
 * op.h - the operator table: for every operator its shape inference and its plain C reference.
 *
 * One file under runtime/ops holds one family of operators and ends with its rows, `const struct mo_op
 * mo_ops_<file>[]`, closed by an empty row; op_table.c lists the files.  Adding an operator = two functions
 * and one row.
 *
 * `infer` and `run` see plain-layout values.  The same infer serves at load time, when in[i].data is set for
 * constants only, and at run time for operators whose output shape depends on data: it answers
 * MO_NEED_DATA (positive) when a shape needs contents that are not known yet. */
#ifndef MO_OP_H
#define MO_OP_H
#include "runtime/graph/graph.h"

enum { MO_NEED_DATA = 1 };

struct mo_body_host; /* runtime/ops/control/body.h */

struct mo_op_ctx {
    const struct mo_node *node; /* attributes, opset, fuse */
    const struct mo_env *env;   /* for scratch memory: mo_alloc / mo_free */
    int n_in, n_out;
    const struct mo_value *in; /* dtype MOIRE_NONE: absent */
    struct mo_value *out;      /* infer fills dtype and shape; run fills the contents of out[i].data */
    moire_error *err;
    const struct mo_body_host *host; /* what runs bodies; NULL: the references do */
    void **kept; /* NULL, or what infer leaves to run, which follows with the same operands: at first NULL, at
                    last the caller's to free (runtime/ops/kept.h) */
};

/* Operands as ONNX declares them.  The first min_in inputs and min_out outputs are required, the others may
 * be left out: absent at the end of the list, or -1 within it.  Where max_in or max_out is -1 the last
 * operand stands for any number of them, and none of these may be left out; a model may leave out such an
 * output (Split), and the importer then makes a tensor that nobody reads (mo_op_is_listed()). */
struct mo_op {
    const char *name, *domain; /* domain "" is ai.onnx */
    int min_opset;             /* first version of the operator that is understood; 0 or 1 = all */
    int min_in, max_in;        /* -1 = any number; operands.c knows what some opsets require beyond min_in */
    int min_out, max_out;
    /* Output types and shapes; checks input ranks, types and attributes.  0, MO_NEED_DATA or an error. */
    int (*infer)(const struct mo_op_ctx *ctx);
    /* Computes every output whose data is not NULL.  Inputs were accepted by infer.  The oracle. */
    int (*run)(const struct mo_op_ctx *ctx);
    unsigned flags; /* MO_OP_* */
};

enum {
    MO_OP_POINTWISE = 1, /* one input, same shape out, element by element: may run in any layout */
    MO_OP_VIEW = 2,      /* output is the input's bytes under another shape */
    MO_OP_RANDOM = 4,    /* never folded */
    /* Output shapes are known only when all is computed: `infer` answers MO_NEED_DATA, and `run` fills type,
     * shape and contents of every output, in memory of mo_alloc() that is the caller's, also when it fails.
     * Callers that have outputs call mo_run_made() (runtime/ops/control/body.h). */
    MO_OP_MAKES = 16,
    MO_OP_BUNDLES =
        32,           /* takes sequences and optionals (runtime/ops/control/bundle.h); others never see one */
    MO_OP_PARTS = 64, /* work that cores may share (runtime/ops/op_parts.h) */
    MO_OP_BODIES = 8, /* has graphs in attributes: codegen/bodies.h infers its shapes */
};

/* Row for a name and domain, or NULL. */
const struct mo_op *mo_op_find(const char *name, const char *domain);
/* All rows in order, for listings and tests; NULL past the end. */
const struct mo_op *mo_op_at(int index);

/* Inputs that the operator requires in this opset. */
int mo_op_min_in(const struct mo_op *op, int opset);
/* Every operand that the operator requires is there, and no more than it takes.  False: `problem` says which
 * one is not, and what to do. */
bool mo_op_has_operands(const struct mo_node *node, char *problem, size_t n);
/* Output k is one of any number: the others' meaning depends on it, so that it always has a tensor. */
bool mo_op_is_listed(const struct mo_op *op, int k);

/* What loaders and executors call: checks the number of inputs and outputs, answers MO_NEED_DATA when the
 * rank of an input is not known, then asks node->op->infer. */
int mo_op_infer(const struct mo_op_ctx *ctx);

/* Error that names node and operator: "node 'n' (Op): message". */
int mo_op_fail(const struct mo_op_ctx *ctx, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* --- helpers for infer and run (helpers.c) --- */
/* Normalizes a possibly negative axis; -1 and an error when out of [-rank, rank). */
int mo_axis(const struct mo_op_ctx *ctx, int64_t axis, int rank);
/* Numpy broadcasting of two shapes; false when they do not broadcast. */
bool mo_broadcast(const struct mo_shape *a, const struct mo_shape *b, struct mo_shape *out);
/* Reads an int32 or int64 constant vector (shape, axes, repeats) into out; count, or <0 error, or
 * MO_NEED_DATA through *need when the contents are unknown. */
int mo_read_ints(const struct mo_op_ctx *ctx, int input, int64_t *out, int cap, bool *need);
/* The same of a list of at most MOIRE_MAX_RANK that newer opsets give as an input and older ones as an
 * attribute. */
int mo_read_list(const struct mo_op_ctx *ctx, int input, const char *attr, int64_t *out, bool *need);
/* act(x) of a fused epilogue, the reference formula. */
float mo_activate(enum mo_act act, float a, float b, float x);
#endif
