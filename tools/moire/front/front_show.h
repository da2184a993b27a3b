/* SPDX-License-Identifier: Apache-2.0
 * front_show.h - the fronts of a model and of its layers: printed, as JSON and drawn. */
#ifndef MO_TOOL_FRONT_H
#define MO_TOOL_FRONT_H
#include "codegen/tune/front.h"

enum { MO_FRONT_REFUSED = 6, MO_FRONT_WHY = 320 };

/* A candidate that never became a kernel of the layer. */
struct mo_front_refused {
    char family[32], knobs[MO_STORE_KNOBS];
    char verdict[64]; /* "wrong result" */
};

struct mo_front_row {
    struct mo_store_front front;
    char layer[200];                       /* "Conv 3x3 +relu [1,64,56,56]" */
    int uses;                              /* layers of the model that share it */
    int64_t packed_bytes[MO_FRONT_POINTS]; /* packed weights of every point; -1: not known */
    struct mo_front_refused refused[MO_FRONT_REFUSED];
    int n_refused; /* may be more than there is room for */
};
struct mo_fronts {
    const char *model;
    struct mo_front_row *row;
    int n, untuned; /* layers with a front; with none */
    bool every_point;
};

/* The layers of a model together, each in the version that the runtime chooses at a level of pressure; of
 * layers with a front only, as often as the model uses them. */
struct mo_front_model {
    int layers, several;                 /* with a front; with more than one version */
    double chosen_ns[MO_STORE_LEVELS];   /* on one core */
    double single_ns[MO_STORE_LEVELS];   /* every layer in its first version */
    int changed[MO_STORE_LEVELS];        /* layers in another version than the first */
    double parallelism[MO_STORE_LEVELS]; /* of the chosen ones, means by time */
    double block_bytes[MO_STORE_LEVELS], l3_bytes[MO_STORE_LEVELS];
};
struct mo_front_model mo_front_model_of(const struct mo_fronts *all);

/* Points on the list that are to be shown. */
bool mo_front_shown(const struct mo_fronts *all, const struct mo_store_point *point);
/* Time at a pressure; versions that were only kept for many cores know none: it does nothing to them as far
 * as they tell. */
double mo_front_time_at(const struct mo_store_point *point, double pressure);
/* The least pressure, in steps of 1/100, from which a version is the fastest of its layer; -1: never. */
double mo_front_from(const struct mo_store_front *front, int version);
/* front_why.c: why a sampled implementation is a version, or is none, in one sentence; others are
 * named by their numbers, from 1. */
void mo_front_why(const struct mo_front_row *row, int point, char out[MO_FRONT_WHY]);
/* front_refused.c: the candidates of the layer that did not compile or did not verify, from the store's index
 * of it. */
void mo_front_read_refused(const struct mo_env *env, const struct mo_store *store, struct mo_front_row *row);

void mo_front_text(const struct mo_fronts *all);
/* {"model":..., "layers":[{"layer", "uses", "share_ns", "points":[{"number", ..., "fastest_from", "why"}],
 * "refused"}]} on standard output. */
int mo_front_json(const struct mo_fronts *all, moire_error *err);
/* front_page.c */
int mo_front_html(const struct mo_env *env, const struct mo_fronts *all, const char *path, moire_error *err);
#endif
