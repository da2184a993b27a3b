/* SPDX-License-Identifier: Apache-2.0
 * make.h - random ONNX graphs from a seed.
 *
 * A graph grows node by node from tables of kinds, one table a group of operators (make_<group>.c).  A node
 * whose shapes do not work out is taken back, so kinds need little shape arithmetic of their own.  Nodes have
 * the attributes and inputs of the graph's opset.  The graph is one of moire's, but every use of it goes
 * through a file (onnx_write.h): the importer is part of what is tested.
 *
 * Running out of memory aborts: this is a test. */
#ifndef MO_DT_MAKE_H
#define MO_DT_MAKE_H
#include "runtime/graph/graph.h"
#include "tests/differential/random.h"

enum { DT_LIVE = 48, DT_PORTS = 16 };

struct dt_maker {
    struct mo_graph *g;
    struct dt_random random;
    moire_dtype type;           /* of most tensors */
    int live[DT_LIVE], n_live;  /* tensors that a next node may read */
    int64_t elements, products; /* bounds of one tensor, of the whole graph */
};

/* Adds nodes that read tensor x, or nothing when it does not fit. */
typedef void dt_grow(struct dt_maker *m, int x);
struct dt_kind {
    const char *name;
    int weight;
    unsigned types; /* MO_TYPE() set of x */
    dt_grow *grow;
};
#define DT_GROUPS(X)                                                                                         \
    X(window) X(point) X(move) X(alias) X(matrix) X(reduce) X(index) X(norm) X(quant) X(recurrent) X(decoder)
#define DT_GROUP_EXTERN(group) extern const struct dt_kind dt_kinds_##group[];
DT_GROUPS(DT_GROUP_EXTERN)
#undef DT_GROUP_EXTERN

/* The same seed gives the same graph: inputs, outputs, all shapes inferred. */
struct mo_graph *dt_make(const struct mo_env *env, uint64_t seed);
/* Contents of the inputs, in the graph's region. */
void dt_make_inputs(struct mo_graph *g, uint64_t seed, moire_tensor inputs[DT_PORTS]);

/* --- what kinds use --- */
#define DT_OF(m, list) ((list)[dt_pick(&(m)->random, (int)(sizeof(list) / sizeof *(list)))])
static inline int dt_roll(struct dt_maker *m, int n) {
    return dt_pick(&m->random, n);
}
const struct mo_shape *dt_shape(const struct dt_maker *m, int id);
moire_dtype dt_type(const struct dt_maker *m, int id);
/* Random constant; integers are small. */
int dt_const(struct dt_maker *m, moire_dtype type, int rank, const int64_t *d, double scale, double shift);
int dt_vector(struct dt_maker *m, moire_dtype type, int64_t n, double scale, double shift);
int dt_scalar(struct dt_maker *m, moire_dtype type, double value);
int dt_list(struct dt_maker *m, int64_t n, const int64_t *values); /* int64 */
struct mo_node *dt_node(struct dt_maker *m, const char *op, int n_in, const int *in, int n_out);
void dt_int(struct dt_maker *m, struct mo_node *n, const char *name, int64_t value);
void dt_float(struct dt_maker *m, struct mo_node *n, const char *name, double value);
void dt_string(struct dt_maker *m, struct mo_node *n, const char *name, const char *value);
void dt_ints(struct dt_maker *m, struct mo_node *n, const char *name, int count, const int64_t *values);
void dt_floats(struct dt_maker *m, struct mo_node *n, const char *name, int count, const float *values);
/* Sizes that older opsets have as an attribute and newer ones as an input: appended before dt_keep(). */
void dt_sizes(struct dt_maker *m, struct mo_node *n, int since, int input, const char *name, int64_t count,
              const int64_t *values);
/* Infers; a node that does not fit is dropped (false).  All outputs become live. */
bool dt_keep(struct dt_maker *m, struct mo_node *n);
/* Leaves output k of a kept node out: nobody reads it yet. */
void dt_omit(struct dt_maker *m, struct mo_node *n, int k);
/* One output, no attributes; its tensor, or -1. */
int dt_chain(struct dt_maker *m, const char *op, int n_in, const int *in);
/* A live tensor of this type and shape (-1 matches any size; NULL any shape); -1 when there is none. */
int dt_like(struct dt_maker *m, moire_dtype type, const struct mo_shape *shape);
#endif
