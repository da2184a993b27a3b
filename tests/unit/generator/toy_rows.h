/* SPDX-License-Identifier: Apache-2.0
 * toy_rows.h - naive compiled kernels for matrix products, right or wrong by choice, put straight into a
 * store: what a search would have refused can be there, too. */
#ifndef TOY_ROWS_H
#define TOY_ROWS_H
#include "tests/unit/codegen/onnx_build.h"
#include "variants/store_format.h"

/* What a kernel does beside y = x w + b, on images of rows that lie apart. */
enum toy_rows {
    ROWS_RIGHT,
    ROWS_ROUNDED,   /* a little off, within every tolerance */
    ROWS_BACKWARDS, /* sums from the last term on */
    ROWS_DENSE,     /* takes the images for adjacent: right on its own, wrong in a slice */
    ROWS_OVERRUN,   /* writes a float behind its last image */
    ROWS_SHORT,     /* leaves the last element of the last image as it is */
    ROWS_SPLIT,     /* sums in its scratch from unit 0 on: depends on where a range begins */
    ROWS_SCRATCH,   /* writes behind its scratch */
    ROWS_CRASH,     /* where images lie apart */
    ROWS_MODES
};

/* y = a w reads a slice of c = Concat(tanh x, a), which lie beside one another in every image; with `both` it
 * is the third part of c and writes a slice as well.  a = op(x), x is [2,8,16].  More nodes may follow. */
struct ob *toy_rows_sliced(const char *op, bool both);
/* Writes the model and destroys b. */
void toy_rows_write(struct ob *b, const char *path);
/* Makes mode[0] the best variant of the first layer of the model at `path` that has a signature, and the
 * others its further versions.  signature receives the layer's. */
int toy_rows_store(const struct mo_env *env, const char *store, const char *path, const enum toy_rows *mode,
                   int n, char signature[MO_STORE_TEXT], moire_error *err);
#endif
