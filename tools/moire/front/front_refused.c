/* SPDX-License-Identifier: Apache-2.0
 * front_refused.c - candidates that never became a kernel: the search notes its verdicts in the index of the
 * layer.  Whatever is wrong with that file, there are none. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "runtime/base/trusted.h"
#include "tools/moire/front/front_show.h"
#include "variants/store_json.h"

enum { MOST_BYTES = 1 << 20 };

static bool is_good(const char *verdict) {
    return !strcmp(verdict, "ok");
}

static void take(const json_t *ranked, struct mo_front_row *row) {
    size_t i;
    json_t *one;
    json_array_foreach(ranked, i, one) {
        const char *verdict = json_string_value(json_object_get(one, "verdict")),
                   *family = json_string_value(json_object_get(one, "family")),
                   *knobs = json_string_value(json_object_get(one, "knobs"));
        if (!verdict || !family || !knobs || is_good(verdict)) continue;
        if (row->n_refused < MO_FRONT_REFUSED) {
            struct mo_front_refused *r = &row->refused[row->n_refused];
            snprintf(r->family, sizeof r->family, "%s", family);
            snprintf(r->knobs, sizeof r->knobs, "%s", knobs);
            snprintf(r->verdict, sizeof r->verdict, "%s", verdict);
        }
        row->n_refused++;
    }
}

void mo_front_read_refused(const struct mo_env *env, const struct mo_store *store, struct mo_front_row *row) {
    struct mo_trusted_file file = {0};
    char layer[MO_SHA256_HEX];
    row->n_refused = 0;
    mo_store_layer(row->front.signature, row->front.isa, layer);
    if (mo_store_open_file(store, layer, ".best.json", MOST_BYTES, &file, NULL) || !file.bytes) return;
    json_t *body = mo_store_open_envelope(file.bytes, file.n, NULL);
    take(json_object_get(body, "ranked"), row);
    json_decref(body);
    mo_trusted_close(env, &file);
}
