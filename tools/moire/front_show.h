/* SPDX-License-Identifier: Apache-2.0
 * front_show.h - the fronts of a model's layers, printed, as JSON and drawn. */
#ifndef MO_TOOL_FRONT_H
#define MO_TOOL_FRONT_H
#include "codegen/tune/front.h"

struct mo_front_row {
    struct mo_store_front front;
    int uses; /* layers of the model that share it */
};
struct mo_fronts {
    const char *model;
    struct mo_front_row *row;
    int n, untuned; /* layers with a front; with none */
    bool every_point;
};

/* Points on the list that are to be shown. */
bool mo_front_shown(const struct mo_fronts *all, const struct mo_store_point *point);
/* The least pressure, in steps of 1/100, from which a version is the fastest of its layer; -1: never. */
double mo_front_from(const struct mo_store_front *front, int version);
void mo_front_text(const struct mo_fronts *all);
/* {"model":..., "layers":[{"layer", "uses", "share_ns", "points":[{..., "fastest_from"}]}]} on standard
 * output. */
int mo_front_json(const struct mo_fronts *all, moire_error *err);
int mo_front_html(const struct mo_env *env, const struct mo_fronts *all, const char *path, moire_error *err);
#endif
