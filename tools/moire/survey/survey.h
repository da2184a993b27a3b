/* SPDX-License-Identifier: Apache-2.0
 * survey.h - `moire bench survey`: many networks, each judged: are its answers right, how fast is it beside
 * the best peer, with built-in and with compiled kernels, and which layer is to blame. */
#ifndef MO_SURVEY_H
#define MO_SURVEY_H
#include "bench/alone/latency.h"
#include "tools/moire/verify/dataset.h"

/* A network of the survey: a file, and perhaps a folder of inputs and outputs that are right for it. */
struct mo_survey_entry {
    const char *name, *model, *data; /* data NULL: its answers are not checked */
};
struct mo_words; /* tools/moire/command_line/options.h */
struct mo_store;

struct mo_survey_list {
    struct mo_region *region; /* owns every string */
    struct mo_survey_entry *entry;
    int n, room;
};
/* Operands become networks: a folder its subfolders with a model.onnx, which may have a folder `data` beside,
 * and its files *.onnx; another file the paths in it, a line each; *.onnx itself.  MOIRE_EIO, MOIRE_EINVAL:
 * one that is not there, or has no network.  Free after an error, too. */
int mo_survey_list_make(const struct mo_env *env, const struct mo_words *operands, struct mo_survey_list *out,
                        moire_error *err);
void mo_survey_list_free(const struct mo_env *env, struct mo_survey_list *list);

/* The data of a network as a batch of `batch` equal ones where its own are of one; then also the shapes with
 * which the model is to be loaded.  MOIRE_EUNSUPPORTED: that cannot be made of it. */
int mo_survey_batch(struct mo_dataset *data, int batch, moire_error *err);

/* Runs the network by the kernels that the runtime would choose; *worst: how far the outputs are from the
 * data's, in parts of their range; INFINITY: another shape or type, or a NaN where there is none. */
int mo_survey_check(const struct mo_env *env, const struct mo_survey_entry *entry,
                    const struct mo_dataset *data, const struct mo_frontend_options *front,
                    const struct mo_store *store, double *worst, moire_error *err);

struct mo_survey_options {
    const struct mo_survey_list *list;
    int batch[8], n_batches;
    struct mo_bench_latency_options alone; /* threads, peers, time of each; save and resume */
};
/* The whole command: fills *out with the document, also when interrupted.  A network that fails is a row that
 * says why. */
int mo_survey(struct mo_bench_session *session, const struct mo_survey_options *options, json_t **out,
              moire_error *err);
/* The table, what it sums up to, and the networks to mend first, for the terminal. */
void mo_survey_print(const json_t *document);
#endif
