/* SPDX-License-Identifier: Apache-2.0
 * store_front.c - the file that lists the implementations of one layer: {..., "points":[{...}, ...]}. */
#include <math.h>
#include <string.h>
#include "variants/store_json.h"

const char *mo_point_state_name(enum mo_point_state state) {
    static const char *const names[MO_POINT_STATES] = {[MO_POINT_VERSION] = "version",
                                                       [MO_POINT_COVERED] = "covered",
                                                       [MO_POINT_SPARE] = "spare",
                                                       [MO_POINT_DOMINATED] = "dominated",
                                                       [MO_POINT_LATE] = "late"};
    return names[state];
}

static bool take_state(const char *name, enum mo_point_state *out) {
    for (int i = 0; i < MO_POINT_STATES; i++) {
        if (strcmp(name, mo_point_state_name((enum mo_point_state)i))) continue;
        *out = (enum mo_point_state)i;
        return true;
    }
    return false;
}

/* One time a level; a version has all of them, or only the first when it is kept for its cores. */
static bool take_times(const json_t *list, struct mo_store_point *p) {
    if (json_array_size(list) != MO_STORE_LEVELS) return false;
    for (size_t i = 0; i < MO_STORE_LEVELS; i++) {
        const json_t *v = json_array_get(list, i);
        p->ns[i] = json_number_value(v);
        if (!json_is_number(v) || !isfinite(p->ns[i]) || p->ns[i] < 0) return false;
        if (p->state == MO_POINT_VERSION && (p->ns[0] <= 0 || (p->ns[i] > 0) != (p->ns[1] > 0 || !i)))
            return false;
    }
    return true;
}

static int take_point(const json_t *body, struct mo_store_point *p, moire_error *err) {
    char state[16];
    const struct mo_store_field fields[] = {
        {"key", MO_FIELD_DIGEST, p->key, 0},
        {"family", MO_FIELD_TEXT, p->family, sizeof p->family},
        {"knobs", MO_FIELD_TEXT, p->knobs, sizeof p->knobs},
        {"state", MO_FIELD_TEXT, state, sizeof state},
        {"packing", MO_FIELD_COUNT, &p->packing, 0},
        {"units", MO_FIELD_COUNT, &p->units, 0},
        {"parallelism_milli", MO_FIELD_COUNT, &p->parallelism_milli, 0},
        {"block_bytes", MO_FIELD_COUNT, &p->block_bytes, 0},
        {"l3_bytes", MO_FIELD_COUNT, &p->l3_bytes, 0},
        {"part_ns", MO_FIELD_LATER_NUMBER, &p->part_ns, 0},
        {NULL, MO_FIELD_TEXT, NULL, 0},
    };
    int rc = mo_store_take_fields(body, fields, err);
    if (!rc && (!take_state(state, &p->state) || !take_times(json_object_get(body, "ns"), p) ||
                (p->state == MO_POINT_VERSION && !*p->key)))
        rc = mo_fail(err, MOIRE_ESTORE, "malformed point");
    return rc;
}

int mo_store_parse_front(const char *bytes, size_t n, struct mo_store_front *f, moire_error *err) {
    int64_t abi = 0, generator = 0, cores = 0, versions = 0;
    memset(f, 0, sizeof *f);
    const struct mo_store_field fields[] = {
        {"abi", MO_FIELD_COUNT, &abi, 0},
        {"generator", MO_FIELD_COUNT, &generator, 0},
        {"isa", MO_FIELD_ISA, &f->isa, 0},
        {"signature", MO_FIELD_TEXT, f->signature, sizeof f->signature},
        {"share_ns", MO_FIELD_NUMBER, &f->share_ns, 0},
        {"cores", MO_FIELD_LATER_COUNT, &cores, 0},
        {"versions", MO_FIELD_LATER_COUNT, &versions, 0},
        {NULL, MO_FIELD_TEXT, NULL, 0},
    };
    json_t *body = mo_store_open_envelope(bytes, n, err);
    if (!body) return MOIRE_ESTORE;
    int rc = mo_store_take_fields(body, fields, err);
    const json_t *points = json_object_get(body, "points");
    if (!rc && (!json_is_array(points) || json_array_size(points) > MO_FRONT_POINTS || abi > INT32_MAX ||
                generator > INT32_MAX || cores > INT32_MAX || versions > INT32_MAX))
        rc = mo_fail(err, MOIRE_ESTORE, "malformed list of points");
    for (size_t i = 0; !rc && i < json_array_size(points); i++)
        rc = take_point(json_array_get(points, i), &f->point[f->n++], err);
    json_decref(body);
    f->abi = (int)abi;
    f->generator = (int)generator;
    f->cores = (int)cores;
    f->versions = (int)versions;
    return rc;
}
