/* SPDX-License-Identifier: Apache-2.0
 * compiled.h - compiled models in the store: which one belongs to an ONNX file, and opening it.
 *
 * An ONNX file is recognised by what the file system says of it (device, inode, size, times of modification
 * and of change), not by its contents, which a start has no time to read: `changed` moves with every write
 * and no program can set it.  That state, the shapes asked for (in any order) and the version of moire name a
 * *stamp*, a small file that names the compiled model.  A file that was copied, touched or edited has another
 * stamp: no compiled model then, the model loads from ONNX, and `moire compile` (which does read the
 * contents) makes a new stamp. */
#ifndef MO_COMPILED_H
#define MO_COMPILED_H
#include "runtime/plan/image.h"
#include "variants/store_format.h"

#define MO_MODEL_SUFFIX ".model"
#define MO_STAMP_SUFFIX ".stamp.json"

/* What is asked for. */
struct mo_compiled_request {
    const char *path; /* of the ONNX file */
    const moire_shape *shapes;
    int n_shapes;
    bool exact;
    enum mo_isa isa;
    enum moire_precision precision;
};

struct mo_compiled {
    const struct mo_env *env;
    struct mo_trusted_file file;
    struct mo_graph *graph; /* to be taken over by mo_plan_build() */
    struct mo_image_times times;
    struct mo_image_checking checking;
};

/* Opens the compiled model of a file; out->graph is NULL when there is none.  MOIRE_ESTORE: there is one and
 * it cannot be used; load from ONNX then.  helper: whether a thread may check it meanwhile.  *out stays where
 * it is until it is closed. */
int mo_compiled_open(const struct mo_store *store, const struct mo_env *env,
                     const struct mo_compiled_request *request, bool helper, struct mo_compiled *out,
                     moire_error *err);
/* The stamp of a file in its present state; out->model is empty when there is none. */
int mo_compiled_read_stamp(const struct mo_store *store, const struct mo_env *env,
                           const struct mo_compiled_request *request, struct mo_store_stamp *out,
                           moire_error *err);
/* Ends the check of its data: MOIRE_ESTORE when it is damaged and nothing made from it may run. */
int mo_compiled_check(struct mo_compiled *compiled, moire_error *err);

/* --- a plan from it --- */
struct mo_compiled_ask {
    const struct mo_env *env;
    const struct mo_compiled_request *request;
    const struct mo_plan_options *planning; /* the models are in its store; NULL: in none, and no line */
    /* Of the request's shapes the last so many were not asked for but found, as in files of inputs: a model
     * compiled without them fits where its inputs have these shapes. */
    int n_found;
    bool helper;
    /* Sees the graph before it is planned, and may refuse it; NULL: nobody does.  The large constants of a
     * compiled model are hollow. */
    int (*look)(void *ctx, const struct mo_graph *graph, moire_error *err);
    void *look_ctx;
};
/* The plan of a file by its compiled model: opened, planned and checked, packed weights where they lie in the
 * store.  *plan is NULL when none fits or the one that does cannot be used: then it is for the caller to make
 * one from ONNX.  A line of the log says which it was. */
int mo_compiled_plan(const struct mo_compiled_ask *ask, struct mo_compiled *out, struct mo_plan **plan,
                     moire_error *err);
/* That line where the caller knows why no compiled model fits. */
void mo_compiled_say_packed(const struct mo_env *env, const char *path, const char *why);
/* Once a plan was built from it: packed weights that only other versions than the first read, which lie at
 * its end, leave this process's memory until they are read. */
void mo_compiled_trim(const struct mo_compiled *compiled, const struct mo_plan *plan);
/* After everything made from it is gone. */
void mo_compiled_close(struct mo_compiled *compiled);

/* --- for the writer --- */
/* Name of the stamp of a file in its present state. */
int mo_compiled_stamp(const struct mo_env *env, const struct mo_compiled_request *request,
                      char name[MO_SHA256_HEX], moire_error *err);
/* Digest of the state of the files beside it that hold its data; "" when there are none. */
int mo_compiled_outside(const struct mo_env *env, const char *path, const struct mo_graph *graph,
                        char digest[MO_SHA256_HEX], moire_error *err);
/* Key of the compiled model: contents of all files, shapes, version, and the kernel and packing of every
 * step. */
int mo_compiled_key(const struct mo_plan *plan, const struct mo_compiled_request *request,
                    char key[MO_SHA256_HEX], moire_error *err);
/* The same of the state of all files in place of their contents: equal while neither files nor kernels have
 * changed. */
int mo_compiled_state(const struct mo_plan *plan, const struct mo_compiled_request *request,
                      char digest[MO_SHA256_HEX], moire_error *err);
#endif
