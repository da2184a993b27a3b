/* SPDX-License-Identifier: Apache-2.0
 * ensemble.h - a pipeline of models that is served as a model (Triton's ensemble_scheduling).
 *
 * An ensemble is a graph without circles: steps, each a model of the repository, and tensors by name, each
 * from the request or from one step.  It is read from a configuration alone (ensemble_read.c); whether the
 * models fit each other is known when these are (ensemble_check.c).  In a repository an ensemble holds the
 * models that it uses, and serves while all of them do (ensemble_settle.c).  pipeline.h runs its queries. */
#ifndef MS_ENSEMBLE_H
#define MS_ENSEMBLE_H
#include <stdatomic.h>
#include "serve/protocol/kserve.h"
#include "serve/repository/scan.h"

enum { MS_STEPS = 32, MS_TENSORS = 128, MS_NESTED = 8, MS_IN_FLIGHT = 64 };

/* A port of a step's model, and the tensor that it takes or gives. */
struct ms_link {
    const char *port; /* borrowed from the configuration */
    int tensor;
};

struct ms_model;
struct ms_step {
    const char *model; /* borrowed from the configuration */
    char version[MS_VERSION];
    struct ms_link *in, *out;
    int n_in, n_out;
    bool is_list;                /* it runs for each item of a list: list_step.h */
    struct ms_model *member;     /* held; NULL: the ensemble does not serve.  Under the repository's lock */
    _Atomic int64_t expected_ns; /* computing time of its last queries; 0: not known yet */
};

struct ms_tensor {
    const char *name; /* borrowed from the configuration */
    int producer;     /* step; -1: the request */
    int input;        /* of the request, where producer is -1 */
    int consumers;    /* inputs of steps */
};

struct ms_pipeline;
struct ms_ensemble {
    struct ms_step step[MS_STEPS];
    struct ms_tensor tensor[MS_TENSORS];
    int n_steps, n_tensors;
    int order[MS_STEPS]; /* the steps, each behind those that it waits for */
    moire_port input[MS_PORTS],
        output[MS_PORTS]; /* as the configuration has them, with the batch dimension */
    int n_inputs, n_outputs;
    int of_output[MS_PORTS]; /* tensors */
    int64_t max_batch;
    int nested; /* 1, and one more for each ensemble within another */
    /* pipeline_gate.c, under the gate's lock */
    int most, in_flight;         /* queries at once; those under way */
    struct ms_pipeline *waiting; /* by deadline */
};

/* Reads the settings of the ensemble `name`, which must outlive it; faults go to `faults`.
 * Returns: an ensemble to be freed, unusable where there were faults; NULL: no memory. */
struct ms_ensemble *ms_ensemble_read(const json_t *config, const char *name, struct ms_faults *faults);
/* Gives back its models, too.  NULL is fine. */
void ms_ensemble_free(struct ms_ensemble *ensemble);

/* What a model takes and gives. */
struct ms_ports {
    const moire_port *input, *output;
    int n_inputs, n_outputs;
    int64_t max_batch;
};
/* Of the model of a step.  false: there is none that could be used; the fault has been said. */
typedef bool (*ms_ports_find)(void *user, const struct ms_step *step, struct ms_ports *out,
                              struct ms_faults *faults);
/* Says every tensor whose types or shapes do not fit, and every port that is missing. */
void ms_ensemble_check(const struct ms_ensemble *ensemble, const char *name, ms_ports_find find, void *user,
                       struct ms_faults *faults);

/* Checks one that is not loaded; `scan` has all models of its source, and says every fault that a load would
 * meet. */
void ms_ensemble_inspect(const struct ms_source *from, const struct ms_scan *scan,
                         const struct ms_found *found, struct ms_faults *faults);

/* The loader's.  An ensemble whose models are all there and fit takes them and serves; another does not, and
 * its model says why.  Returns: true: something has changed. */
bool ms_ensemble_settle(struct ms_model *model);
/* All of them, after models have come or gone. */
struct ms_repository;
void ms_ensembles_settle(struct ms_repository *repository);
#endif
